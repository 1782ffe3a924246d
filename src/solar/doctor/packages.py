"""The packages that solar is built on: those it needs, and those it can do more with."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Literal

from solar.doctor.probe import Attempt

State = Literal["works", "installed", "missing", "broken"]

# What each extra of the package is for.
EXTRAS: Mapping[str, str] = {
    "local": "keypoints, matching two photos, geometric verification, ASMK",
    "web": "the web app of `solar serve`",
    "train": "training from recipes, and its curves in TensorBoard",
    "heic": "photos in HEIC, as telephones take them",
    "show": "figures of curves, and t-SNE in the map of a collection",
    "export": "ONNX files, and describing with ONNX Runtime or OpenVINO",
    "dask": "describing on a cluster",
    "milvus": "indices on a Milvus server",
}


@dataclass(frozen=True)
class Package:
    """A package.

    Attributes:
        name: What pip calls it.
        module: What Python calls it.
        extra: The extra of solar that brings it; empty where solar cannot do without it.
    """

    name: str
    module: str
    extra: str = ""


PACKAGES: tuple[Package, ...] = (
    Package("torch", "torch"),
    Package("numpy", "numpy"),
    Package("pillow", "PIL.Image"),
    Package("safetensors", "safetensors.torch"),
    Package("faiss-cpu", "faiss"),
    Package("typer", "typer"),
    Package("rich", "rich"),
    Package("platformdirs", "platformdirs"),
    Package("filelock", "filelock"),
    Package("opencv-python-headless", "cv2", "local"),
    Package("fastapi", "fastapi", "web"),
    Package("uvicorn", "uvicorn", "web"),
    Package("python-multipart", "python_multipart", "web"),
    Package("pyyaml", "yaml", "train"),
    Package("tensorboard", "tensorboard", "train"),
    Package("pillow-heif", "pillow_heif", "heic"),
    Package("matplotlib", "matplotlib", "show"),
    Package("scikit-learn", "sklearn", "show"),
    Package("onnx", "onnx", "export"),
    Package("onnxscript", "onnxscript", "export"),
    Package("onnxruntime", "onnxruntime", "export"),
    Package("openvino", "openvino", "export"),
    Package("dask", "dask", "dask"),
    Package("distributed", "distributed", "dask"),
    Package("pymilvus", "pymilvus", "milvus"),
    *([Package("milvus-lite", "milvus_lite", "milvus")] if sys.platform != "win32" else []),
)


@dataclass(frozen=True)
class FoundPackage:
    """What became of a package.

    Attributes:
        name: What pip calls it.
        extra: As of the package.
        version: Empty where it is missing, or does not tell.
        state: "installed" where nobody tried to import it.
        why: What it said when it was imported, where it is broken.
    """

    name: str
    extra: str
    version: str
    state: State
    why: str = ""


def is_installed(package: Package) -> bool:
    """Whether it can be imported, as far as can be said without doing so."""
    try:
        return find_spec(package.module.partition(".")[0]) is not None
    except (ImportError, ValueError):  # what a half removed package may raise
        return False


def found(package: Package, answer: Attempt | None) -> FoundPackage:
    """What became of a package.

    Args:
        package: The package.
        answer: What came of importing it; None if nobody tried.
    """
    if not is_installed(package):
        return FoundPackage(package.name, package.extra, "", "missing")
    if answer is None or answer.works:
        state: State = "works" if answer else "installed"
        return FoundPackage(package.name, package.extra, _version(package), state)
    return FoundPackage(package.name, package.extra, _version(package), "broken", answer.text)


def install_line(extra: str = "") -> str:
    """What to type to get an extra, or the package itself."""
    return f'pip install "solar-retrieval[{extra}]"' if extra else "pip install solar-retrieval"


def _version(package: Package) -> str:
    """The version, also of a package that provides the same under another name."""
    try:
        return metadata.version(package.name)
    except metadata.PackageNotFoundError:
        others = metadata.packages_distributions().get(package.module.partition(".")[0], [])
        return metadata.version(others[0]) if others else ""
