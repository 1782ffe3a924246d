"""The report of `solar doctor`: packages, devices, models and a self-test, as text or as JSON."""

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from solar import __version__
from solar.doctor import machine
from solar.doctor.machine import size_text
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

# Per extra ("" for required packages): its purpose, and its packages as pip calls them.
_EXTRAS = {
    "": (
        "",
        "torch numpy pillow pillow-heif safetensors faiss-cpu opencv-python-headless typer rich "
        "platformdirs filelock threadpoolctl openvino",
    ),
    "web": ("the web app of `solar serve`", "fastapi uvicorn python-multipart prometheus_client"),
    "train": ("training from recipes, with curves in TensorBoard", "pyyaml tensorboard"),
    "show": ("plots of training curves and sweeps", "matplotlib"),
    "export": (
        "ONNX export, and embeddings with ONNX Runtime",
        "onnx onnxscript onnxruntime",
    ),
    "gpu": ("decoding photos on a CUDA device, with `--fast`", "torchvision"),
    "dask": ("computing embeddings on a Dask cluster", "dask distributed"),
    "milvus": (
        "indexes on a Milvus server",
        "pymilvus" if sys.platform == "win32" else "pymilvus milvus-lite",
    ),
    "parquet": ("embeddings as Parquet files, for other tools", "pyarrow"),
    "sfm": ("structure from motion: COLMAP databases and hloc files", "pycolmap h5py"),
    "backbones": ("pretrained backbones and models from the Hugging Face Hub", "transformers"),
}
EXTRAS = {extra: purpose for extra, (purpose, _) in _EXTRAS.items() if extra}
"""The purpose of each extra."""

# Names of modules that are not the package's name with underscores.
_MODULES = {
    "pillow": "PIL.Image",
    "safetensors": "safetensors.torch",
    "faiss-cpu": "faiss",
    "opencv-python-headless": "cv2",
    "pyyaml": "yaml",
}

Rows = dict[str, str]
"""Facts by name."""


@dataclass(frozen=True)
class Package:
    """A package and its state."""

    name: str  # as pip calls it
    module: str  # as Python calls it
    extra: str = ""  # that installs it; empty if it is required
    version: str = ""
    state: str = ""  # `works`, `installed` (not tried), `missing` or `broken`
    why: str = ""  # the error of importing a broken one

    @property
    def installed(self) -> bool:
        """Whether it can be found; it is not imported."""
        try:
            return find_spec(self.module.partition(".")[0]) is not None
        except (ImportError, ValueError):  # half removed
            return False


PACKAGES = tuple(
    Package(name, _MODULES.get(name, name.replace("-", "_")), extra)
    for extra, (_, names) in _EXTRAS.items()
    for name in names.split()
)


@dataclass(frozen=True)
class Report:
    """The findings."""

    problems: list[str]  # what solar cannot work without, causes before their effects
    sections: dict[str, Rows]  # facts by title

    def to_json(self) -> dict[str, Any]:
        """The report for `--json`."""
        facts = {"works": not self.problems, "problems": self.problems, "solar": __version__}
        return facts | self.sections

    def to_text(self) -> str:
        """The report as text, to be pasted into a request for help."""
        lines = [f"solar {__version__}"]
        for title, rows in self.sections.items():
            wide = max(map(len, rows), default=0)
            lines += ["", title, *(f"  {name:<{wide}}  {text}" for name, text in rows.items())]
        return "\n".join(lines)


def examine(*, quick: bool = False) -> Report:
    """Examine the installation; never raises. With `quick`, nothing is imported or run."""
    answers: dict[str, Attempt] = {}
    if not quick:
        here = [package for package in PACKAGES if package.installed]
        needed = [package.module for package in here if not package.extra]
        optional = [package.module for package in here if package.extra]
        # Separate processes: the self-test must not depend on optional packages.
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


def examined(package: Package, answer: Attempt | None) -> Package:
    """The state of a package; `answer` is the result of importing it, if that was tried."""
    if not package.installed:
        return replace(package, state="missing")
    version = _version(package)
    if answer is None or answer.works:
        return replace(package, version=version, state="works" if answer else "installed")
    return replace(package, version=version, state="broken", why=answer.text)


def install_line(extra: str = "") -> str:
    """The command that installs an extra, or the package itself."""
    return f'pip install "solar-retrieval[{extra}]"' if extra else "pip install solar-retrieval"


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
    """Required packages, installed optional ones, and extras with missing packages."""
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
    """The devices of torch, and why it does not use a GPU that is there."""
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
    """The predicate of a sentence about a package."""
    if package.state == "missing":
        return f"is missing: {install_line(package.extra)}"
    if package.state == "broken":
        return f"is broken ({package.why}): pip install --force-reinstall {package.name}"
    return f"{package.version} {package.state}"


def _version(package: Package) -> str:
    try:
        return metadata.version(package.name)
    except metadata.PackageNotFoundError:  # `faiss-gpu` provides the same module, for example
        others = metadata.packages_distributions().get(package.module.partition(".")[0], [])
        return metadata.version(others[0]) if others else ""
