"""The report: what matters when something does not work, as text or as JSON."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from solar import __version__
from solar.doctor import machine
from solar.doctor.packages import EXTRAS, PACKAGES, FoundPackage, found, install_line
from solar.doctor.probe import Attempt, attempt

# Environment variables that change how solar works; none of them is a secret.
_SETTINGS = (
    "SOLAR_CACHE",
    "SOLAR_OFFLINE",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "TORCH_NUM_THREADS",
)
_DEVICES, _FORMATS, _SELF_TEST = (
    f"solar.doctor.probe:{task}" for task in ("devices", "photo_formats", "self_test")
)

Row = tuple[str, str]


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        machine: See `solar.doctor.machine.facts`.
        settings: Environment variables that matter and are set.
        packages: Needed ones first.
        cache: See `solar.doctor.machine.cache_folder`; None if it could not be examined.
        models: Names of models by state: `bundled`, `lacking` (should be bundled), `downloaded`,
            `available`.
        devices, formats, self_test: What `solar.doctor.probe` says; None if nothing was run.
    """

    machine: dict[str, Any]
    settings: dict[str, str]
    packages: tuple[FoundPackage, ...]
    cache: dict[str, Any] | None
    models: dict[str, list[str]]
    devices: Attempt | None = None
    formats: Attempt | None = None
    self_test: Attempt | None = None

    @property
    def problems(self) -> list[str]:
        """Sentences about what solar cannot work without, the cause before what follows from it."""
        said = [
            f"{package.name} {_trouble(package)}."
            for package in self.packages
            if not package.extra and package.state in ("missing", "broken")
        ]
        if self.self_test is not None and not self.self_test.works:
            said.append(f"The self-test failed: {self.self_test.text.rstrip('.')}.")
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
            "cache": self.cache,
            "models": self.models,
            "self_test": None if self.self_test is None else asdict(self.self_test),
        }

    def to_text(self) -> str:
        """All of it for a person, to be pasted where help is asked for."""
        needed = [package for package in self.packages if not package.extra]
        optional = [p for p in self.packages if p.extra and p.state != "missing"]
        sections: list[tuple[str, Sequence[Row]]] = [
            (f"solar {__version__}", self._machine_rows()),
            ("Devices", self._device_rows()),
            ("Required packages", [_package_row(package) for package in needed]),
            ("Optional packages", [_package_row(package) for package in optional]),
            ("Models and cache", self._kept_rows()),
            ("Missing extras", [_extra_row(e, lacks) for e, lacks in self.missing.items()]),
            ("Self-test", self._test_rows()),
        ]
        return "\n\n".join(_section(title, rows) for title, rows in sections if rows)

    def _machine_rows(self) -> list[Row]:
        usable, every = self.machine["cores"]
        rows = [
            ("python", platform.python_version()),
            ("system", self.machine["system"]),
            ("processor", f"{self.machine['processor']}, {usable} of {every} cores"),
        ]
        if self.machine["memory"] is not None:
            free = self.machine["memory_free"]
            left = f", {_size(free)} free" if free is not None else ""
            rows.append(("memory", f"{_size(self.machine['memory'])}{left}"))
        return rows + list(self.settings.items())

    def _device_rows(self) -> list[Row]:
        cards = [("card", card) for card in self.machine["nvidia"]]
        if self.devices is None:
            return cards
        if not self.devices.works:
            return [("broken", self.devices.text), *cards]
        found = self.devices.value
        rows = [("cpu", f"{found['cpu']}, {found['threads']} threads")]
        for number, gpu in enumerate(found["gpus"]):
            facts = f"{_size(gpu['memory'])}, compute capability {gpu['capability']}"
            rows.append((f"cuda:{number}", f"{gpu['name']}, {facts}, CUDA {found['cuda']}"))
        if cards and not found["gpus"]:
            why = "cannot reach it" if found["cuda"] else "was built without CUDA"
            rows.append(("cuda", f"not used: there is a GPU, but this torch {why}"))
        return [*rows, *cards, ("by default", found["used"])]

    def _kept_rows(self) -> list[Row]:
        if self.cache is None:
            return [("cache", "could not be examined")]
        rows = [(state, ", ".join(self.models[state])) for state in ("bundled", "downloaded")]
        lacking = ", ".join(self.models["lacking"])
        rows.append(("lacking", f"{lacking}: install solar again" if lacking else ""))
        rows.append(("available", f"{len(self.models['available'])} more: `solar models`"))
        holds = "{path}: {files} files".format(**self.cache)
        sizes = f"{_size(self.cache['size'])}, {_size(self.cache['free'])} free"
        problem = self.cache["problem"]
        state = f"cannot be written ({problem})" if problem else "writable"
        return [row for row in rows if row[1]] + [("cache", f"{holds}, {sizes}, {state}")]

    def _test_rows(self) -> list[Row]:
        if self.self_test is None:
            return [("not run", "leave out --quick for it")]
        test = self.self_test
        rows = [("works", str(test.value)) if test.works else ("fails", test.text)]
        if self.formats is not None and self.formats.works:
            rows.append(("photos", ", ".join(self.formats.value)))
        return rows


def examine(*, quick: bool = False) -> Report:
    """Look at everything that matters when something does not work. It never raises.

    With `quick` it only looks at what is installed: it imports nothing, and describes no photo.
    """
    answers: dict[str, Attempt] = {}
    if not quick:
        here = [package for package in PACKAGES if package.installed]
        needed = [package.module for package in here if not package.extra]
        optional = [package.module for package in here if package.extra]
        # Apart, because a photo is described without what is optional.
        tried = attempt([*needed, _SELF_TEST, _DEVICES, _FORMATS]) | attempt(optional)
        answers = {t: replace(one, text=machine.shareable(one.text)) for t, one in tried.items()}
    cache, models = _kept()
    return Report(
        machine.facts(),
        {n: machine.shareable(os.environ[n]) for n in _SETTINGS if os.environ.get(n)},
        tuple(found(package, answers.get(package.module)) for package in PACKAGES),
        cache,
        models,
        *(answers.get(task) for task in (_DEVICES, _FORMATS, _SELF_TEST)),
    )


def _kept() -> tuple[dict[str, Any] | None, dict[str, list[str]]]:
    models: dict[str, list[str]] = {
        state: [] for state in ("bundled", "lacking", "downloaded", "available")
    }
    try:
        from solar.models import zoo

        for model in zoo.models():
            here = ("bundled", "lacking") if model.bundled else ("downloaded", "available")
            models[here[0] if zoo.is_here(model) else here[1]].append(model.name)
        return machine.cache_folder(zoo.cache_directory()), models
    except Exception:  # the package that names the folder may be the one that is missing
        return None, models


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


def _extra_row(extra: str, lacks: Sequence[str]) -> Row:
    return extra, f"{EXTRAS[extra]}: {install_line(extra)} (installs {', '.join(lacks)})"


def _section(title: str, rows: Sequence[Row]) -> str:
    wide = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name:<{wide}}  {value}" for name, value in rows)])


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
