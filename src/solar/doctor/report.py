"""The report: everything that is asked when something does not work, as text or as JSON."""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from solar import __version__
from solar.doctor import machine
from solar.doctor.packages import EXTRAS, PACKAGES, FoundPackage, found, install_line, is_installed
from solar.doctor.privacy import shareable
from solar.doctor.probe import Attempt, attempt
from solar.doctor.stored_models import CacheFolder, StoredModel, cache_folder, models

# What changes how solar works, where it is set. None of them is a secret.
_SETTINGS = (
    "SOLAR_CACHE",
    "SOLAR_OFFLINE",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "TORCH_NUM_THREADS",
)
_DEVICES, _FORMATS, _SELF_TEST = (
    f"solar.doctor.capabilities:{task}" for task in ("devices", "photo_formats", "self_test")
)

Row = tuple[str, str]


@dataclass(frozen=True)
class Report:
    """What was found."""

    machine: dict[str, Any]  # with the cards that NVIDIA's tool lists
    settings: dict[str, str]  # environment variables that matter and are set
    packages: tuple[FoundPackage, ...]  # needed ones first
    cache: CacheFolder | None  # None where it could not be looked at
    models: tuple[StoredModel, ...]  # everything that can be loaded by name
    # What `capabilities` tells; None if nothing was tried out.
    devices: Attempt | None = None
    formats: Attempt | None = None
    self_test: Attempt | None = None

    @property
    def problems(self) -> list[str]:
        """Sentences about what solar cannot work without, the cause before what follows from it."""
        said = []
        for package in self.packages:
            if not package.extra and package.state in ("missing", "broken"):
                said.append(f"{package.name} {_trouble(package)}.")
        if self.self_test is not None and not self.self_test.works:
            why = self.self_test.text.rstrip(".")
            said.append(f"The self-test failed: {why}.")
        return said

    @property
    def missing(self) -> dict[str, list[str]]:
        """Extras that are not whole, and the packages they lack."""
        lacking: dict[str, list[str]] = {}
        for package in self.packages:
            if package.extra and package.state == "missing":
                lacking.setdefault(package.extra, []).append(package.name)
        return lacking

    def to_json(self) -> dict[str, Any]:
        """All of it for a program; sizes are in bytes."""
        return {
            "works": not self.problems,
            "problems": self.problems,
            "solar": __version__,
            "python": platform.python_version(),
            "machine": self.machine,
            "settings": self.settings,
            "devices": _answered(self.devices),
            "formats": _answered(self.formats),
            "parts": [asdict(package) for package in self.packages],
            "missing": [
                {"extra": extra, "for": EXTRAS[extra], "install": install_line(extra)}
                for extra in self.missing
            ],
            "cache": None if self.cache is None else asdict(self.cache),
            "models": [asdict(model) for model in self.models],
            "self_test": None if self.self_test is None else asdict(self.self_test),
        }

    def to_text(self) -> str:
        """All of it for a person, to be pasted where help is asked for."""
        here = [package for package in self.packages if package.state != "missing"]
        sections: list[tuple[str, Sequence[Row]]] = [
            (f"solar {__version__}", self._machine_rows()),
            ("Devices", self._device_rows()),
            ("Required packages", [_package_row(p) for p in self.packages if not p.extra]),
            ("Optional packages", [_package_row(p) for p in here if p.extra]),
            ("Models and cache", self._kept_rows()),
            ("Missing extras", [_extra_row(e, lacks) for e, lacks in self.missing.items()]),
            ("Self-test", self._test_rows()),
        ]
        return "\n\n".join(_section(title, rows) for title, rows in sections if rows)

    def _machine_rows(self) -> list[Row]:
        usable, every = self.machine["cores"]
        whole, free = self.machine["memory"], self.machine["memory_free"]
        count = f"{usable} cores" if usable == every else f"{usable} of {every} cores"
        rows = [
            ("python", f"{platform.python_version()} {platform.python_implementation()}"),
            ("system", self.machine["system"]),
            ("processor", f"{self.machine['processor']}, {count}"),
        ]
        if whole is not None:
            left = f", {_size(free)} free" if free is not None else ""
            rows.append(("memory", f"{_size(whole)}{left}"))
        return rows + list(self.settings.items())

    def _device_rows(self) -> list[Row]:
        cards = [("card", card) for card in self.machine["nvidia"]]
        if self.devices is None:
            return cards
        if not self.devices.works:
            return [("broken", self.devices.text), *cards]
        found = self.devices.value
        rows = [("cpu", f"{found['cpu']}, {_count(found['threads'], 'thread')}")]
        for number, gpu in enumerate(found["gpus"]):
            facts = f"{_size(gpu['memory'])}, compute capability {gpu['capability']}"
            rows.append((f"cuda:{number}", f"{gpu['name']}, {facts}, CUDA {found['cuda']}"))
        if cards and not found["gpus"]:
            why = "cannot reach it" if found["cuda"] else "was built without CUDA"
            rows.append(("cuda", f"not used: there is a GPU, but this torch {why}"))
        kernels = ", ".join(found["attention"]) + (", triton" if found["triton"] else "")
        return [*rows, *cards, ("by default", found["used"]), ("attention", f"{kernels} kernels")]

    def _kept_rows(self) -> list[Row]:
        cache = self.cache
        if cache is None:
            return [("cache", "could not be examined")]
        rows = []
        for state in ("bundled", "lacking", "downloaded"):
            names = ", ".join(model.name for model in self.models if model.state == state)
            if names and state == "lacking":
                names += ": missing from this installation, install again from a complete wheel"
            if names:
                rows.append((state, names))
        others = sum(model.state == "can be downloaded" for model in self.models)
        by_hand = sum(model.state == "with a browser" for model in self.models)
        more = f", {by_hand} with a browser" if by_hand else ""
        rows.append(("available", f"{_count(others, 'model')} to download{more}: `solar models`"))
        holds = f"{_count(cache.files, 'file')}, {_size(cache.size)}, {_size(cache.free)} free"
        state = f"cannot be written ({cache.problem})" if cache.problem else "writable"
        return [*rows, ("cache", f"{cache.path}: {holds}, {state}")]

    def _test_rows(self) -> list[Row]:
        if self.self_test is None:
            return [("not run", "leave out --quick for it")]
        test = self.self_test
        rows = [("works", str(test.value)) if test.works else ("fails", test.text)]
        if self.formats is not None and self.formats.works:
            readers = [f"{name} ({how})" for name, how in self.formats.value.items()]
            rows.append(("photos", ", ".join(readers)))
        return rows


def examine(*, quick: bool = False) -> Report:
    """Look at everything that matters when something does not work. It never raises.

    With `quick` it only looks at what is installed: it imports nothing, and describes no photo.
    """
    usable, every = machine.cores()
    whole, free = machine.memory()
    facts = {
        "system": machine.system(),
        "processor": machine.processor(),
        "cores": [usable, every],
        "memory": whole,
        "memory_free": free,
        "nvidia": machine.nvidia_cards(),
    }
    settings = {name: shareable(os.environ[name]) for name in _SETTINGS if os.environ.get(name)}
    answers = {} if quick else _try_out()
    cache, known = _kept()
    return Report(
        facts,
        settings,
        tuple(found(package, answers.get(package.module)) for package in PACKAGES),
        cache,
        known,
        answers.get(_DEVICES),
        answers.get(_FORMATS),
        answers.get(_SELF_TEST),
    )


def _try_out() -> dict[str, Attempt]:
    """Import every package that is here, and describe a photo."""
    here = [package for package in PACKAGES if is_installed(package)]
    needed = [package.module for package in here if not package.extra]
    optional = [package.module for package in here if package.extra]
    # Apart, because a photo is described without what is optional.
    answers = attempt([*needed, _SELF_TEST, _DEVICES, _FORMATS]) | attempt(optional)
    return {task: replace(one, text=shareable(one.text)) for task, one in answers.items()}


def _kept() -> tuple[CacheFolder | None, tuple[StoredModel, ...]]:
    try:
        return cache_folder(), tuple(models())
    except Exception:  # what tells the folder may be the package that is missing
        return None, ()


def _answered(answer: Attempt | None) -> Any:
    if answer is None:
        return None
    return answer.value if answer.works else {"problem": answer.text}


def _package_row(package: FoundPackage) -> Row:
    state = _trouble(package) if package.state in ("missing", "broken") else package.state
    name = f"{package.name} {package.version}".strip()
    return name, f"{state} [{package.extra}]" if package.extra else state


def _trouble(package: FoundPackage) -> str:
    """What is wrong with a package and what to do, to be said after its name."""
    if package.state == "missing":
        return f"is missing: {install_line(package.extra)}"
    return f"is broken ({package.why}): pip install --force-reinstall {package.name}"


def _extra_row(extra: str, lacks: Iterable[str]) -> Row:
    return extra, f"{EXTRAS[extra]}: {install_line(extra)} (installs {', '.join(lacks)})"


def _section(title: str, rows: Sequence[Row]) -> str:
    wide = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name:<{wide}}  {value}" for name, value in rows)])


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
