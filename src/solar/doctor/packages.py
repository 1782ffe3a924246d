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
    "web": "the web app of `solar serve`",
    "train": "training from recipes, with curves in TensorBoard",
    "show": "plots of training curves and sweeps",
    "export": "ONNX export, and embeddings with ONNX Runtime or OpenVINO",
    "gpu": "decoding photos on a CUDA device, with `--fast`",
    "dask": "computing embeddings on a Dask cluster",
    "milvus": "indexes on a Milvus server",
    "parquet": "embeddings as Parquet files, for other tools",
    "sfm": "structure from motion: COLMAP databases and hloc files",
    "backbones": "pretrained backbones and models from the Hugging Face Hub",
}


@dataclass(frozen=True)
class Package:
    """A package, as pip and as Python call it, and the extra that brings it; none if needed."""

    name: str
    module: str
    extra: str = ""


# What Python calls what pip calls so, by the extra that brings it.
_MODULES: Mapping[str, Mapping[str, str]] = {
    "": {
        "torch": "torch",
        "numpy": "numpy",
        "pillow": "PIL.Image",
        "pillow-heif": "pillow_heif",
        "safetensors": "safetensors.torch",
        "faiss-cpu": "faiss",
        "opencv-python-headless": "cv2",
        "typer": "typer",
        "rich": "rich",
        "platformdirs": "platformdirs",
        "filelock": "filelock",
        "threadpoolctl": "threadpoolctl",
    },
    "web": {
        "fastapi": "fastapi",
        "uvicorn": "uvicorn",
        "python-multipart": "python_multipart",
        "prometheus_client": "prometheus_client",
    },
    "train": {"pyyaml": "yaml", "tensorboard": "tensorboard"},
    "show": {"matplotlib": "matplotlib"},
    "export": {
        "onnx": "onnx",
        "onnxscript": "onnxscript",
        "onnxruntime": "onnxruntime",
        "openvino": "openvino",
    },
    "gpu": {"torchvision": "torchvision"},
    "dask": {"dask": "dask", "distributed": "distributed"},
    "milvus": {"pymilvus": "pymilvus"}
    | ({"milvus-lite": "milvus_lite"} if sys.platform != "win32" else {}),
    "parquet": {"pyarrow": "pyarrow"},
    "sfm": {"pycolmap": "pycolmap", "h5py": "h5py"},
    "backbones": {"transformers": "transformers"},
}

PACKAGES = tuple(
    Package(name, module, extra)
    for extra, modules in _MODULES.items()
    for name, module in modules.items()
)


@dataclass(frozen=True)
class FoundPackage:
    """What became of a package."""

    name: str
    extra: str
    version: str  # empty where it is missing, or does not tell
    state: State  # "installed" where nobody tried to import it
    why: str = ""  # what it said when it was imported, where it is broken


def is_installed(package: Package) -> bool:
    """Whether it can be imported, as far as can be said without doing so."""
    try:
        return find_spec(package.module.partition(".")[0]) is not None
    except (ImportError, ValueError):  # what a half removed package may raise
        return False


def found(package: Package, answer: Attempt | None) -> FoundPackage:
    """What became of a package; the answer is what came of importing it, if anybody tried."""
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
