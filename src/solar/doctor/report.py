"""The report: what matters when something does not work, as text or as JSON."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from solar import __version__
from solar.doctor import machine
from solar.doctor.machine import size_text
from solar.doctor.packages import EXTRAS, PACKAGES, Package, examined, install_line
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

Rows = dict[str, str]
"""What was found, by what it is called."""


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        problems: Sentences about what solar cannot work without, the cause before what follows.
        sections: Their rows by title.
    """

    problems: list[str]
    sections: dict[str, Rows]

    def to_json(self) -> dict[str, Any]:
        """All of it for a program."""
        facts = {"works": not self.problems, "problems": self.problems, "solar": __version__}
        return facts | self.sections

    def to_text(self) -> str:
        """All of it for a person, to be pasted where help is asked for."""
        lines = [f"solar {__version__}"]
        for title, rows in self.sections.items():
            wide = max(map(len, rows), default=0)
            lines += ["", title, *(f"  {name:<{wide}}  {text}" for name, text in rows.items())]
        return "\n".join(lines)


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
    packages = [examined(package, answers.get(package.module)) for package in PACKAGES]
    test = answers.get(_SELF_TEST)
    sections = {
        "Machine": _machine_rows(),
        "Devices": device_rows(answers.get(_DEVICES), machine.nvidia_cards()),
        **package_sections(packages),
        "Models and cache": _kept_rows(),
        "Self-test": _test_rows(test, answers.get(_FORMATS)),
    }
    return Report(problems(packages, test), {t: rows for t, rows in sections.items() if rows})


def problems(packages: Sequence[Package], test: Attempt | None) -> list[str]:
    """Sentences about what solar cannot work without."""
    said = [
        f"{package.name} {_state(package)}."
        for package in packages
        if not package.extra and package.state in ("missing", "broken")
    ]
    if test is not None and not test.works:
        said.append(f"The self-test failed: {test.text.rstrip('.')}.")
    return said


def package_sections(packages: Sequence[Package]) -> dict[str, Rows]:
    """Packages that are needed, optional ones that are installed, and extras that lack some."""
    optional = [p for p in packages if p.extra and p.state != "missing"]
    lacking: dict[str, list[str]] = {}
    for package in packages:
        if package.extra and package.state == "missing":
            lacking.setdefault(package.extra, []).append(package.name)
    return {
        "Required packages": {p.name: _state(p) for p in packages if not p.extra},
        "Optional packages": {p.name: f"{_state(p)} [{p.extra}]" for p in optional},
        "Missing extras": {
            extra: f"{EXTRAS[extra]}: {install_line(extra)} (installs {', '.join(names)})"
            for extra, names in lacking.items()
        },
    }


def device_rows(answer: Attempt | None, cards: Sequence[str]) -> Rows:
    """What torch can compute on, and why it uses no card that is there."""
    rows = {f"card {number}": card for number, card in enumerate(cards)}
    if answer is None:
        return rows
    if not answer.works:
        return {"broken": answer.text, **rows}
    found = answer.value
    rows["cpu"] = f"{found['cpu']}, {found['threads']} threads"
    for number, gpu in enumerate(found["gpus"]):
        facts = f"{size_text(gpu['memory'])}, compute capability {gpu['capability']}"
        rows[f"cuda:{number}"] = f"{gpu['name']}, {facts}, CUDA {found['cuda']}"
    if cards and not found["gpus"]:
        why = "cannot reach it" if found["cuda"] else "was built without CUDA"
        rows["cuda"] = f"not used: there is a GPU, but this torch {why}"
    return rows | {"by default": found["used"]}


def _machine_rows() -> Rows:
    usable, every = machine.cores()
    whole, free = machine.memory()
    rows = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": f"{machine.processor()}, {usable} of {every} cores",
    }
    if whole is not None:
        rows["memory"] = size_text(whole) + (f", {size_text(free)} free" if free else "")
    return rows | {n: machine.shareable(os.environ[n]) for n in _SETTINGS if os.environ.get(n)}


def _kept_rows() -> Rows:
    try:
        from solar.files import cache_directory
        from solar.models import zoo

        models: dict[str, list[str]] = {}
        for model in zoo.models():
            states = ("bundled", "lacking") if model.bundled else ("downloaded", "available")
            models.setdefault(states[not zoo.is_here(model)], []).append(model.name)
        rows = {state: ", ".join(names) for state, names in models.items()}
        if "lacking" in rows:
            rows["lacking"] += ": install solar again"
        rows["available"] = f"{len(models.get('available', ()))} more: `solar models`"
        return rows | {"cache": machine.cache_state(cache_directory())}
    except Exception:  # the package that names the folder may be the one that is missing
        return {"cache": "could not be examined"}


def _test_rows(test: Attempt | None, formats: Attempt | None) -> Rows:
    if test is None:
        return {"not run": "leave out --quick for it"}
    rows = {"works": str(test.value)} if test.works else {"fails": test.text}
    if formats is not None and formats.works:
        rows["photos"] = ", ".join(formats.value)
    return rows


def _state(package: Package) -> str:
    """What to say of a package after its name."""
    if package.state == "missing":
        return f"is missing: {install_line(package.extra)}"
    if package.state == "broken":
        return f"is broken ({package.why}): pip install --force-reinstall {package.name}"
    return f"{package.version} {package.state}"
