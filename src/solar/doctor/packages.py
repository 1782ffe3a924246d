"""The packages that solar needs, and those that its extras bring."""

import sys
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec

from solar.doctor.probe import Attempt

# Per extra (none for what is always needed): what it is for, and the packages as pip calls them.
_EXTRAS = {
    "": (
        "",
        "torch numpy pillow pillow-heif safetensors faiss-cpu opencv-python-headless typer rich "
        "platformdirs filelock threadpoolctl",
    ),
    "web": ("the web app of `solar serve`", "fastapi uvicorn python-multipart prometheus_client"),
    "train": ("training from recipes, with curves in TensorBoard", "pyyaml tensorboard"),
    "show": ("plots of training curves and sweeps", "matplotlib"),
    "export": (
        "ONNX export, and embeddings with ONNX Runtime or OpenVINO",
        "onnx onnxscript onnxruntime openvino",
    ),
    "gpu": ("decoding photos on a CUDA device, with `--fast`", "torchvision"),
    "dask": ("computing embeddings on a Dask cluster", "dask distributed"),
    "milvus": (
        "indexes on a Milvus server",
        "pymilvus" + (" milvus-lite" if sys.platform != "win32" else ""),
    ),
    "parquet": ("embeddings as Parquet files, for other tools", "pyarrow"),
    "sfm": ("structure from motion: COLMAP databases and hloc files", "pycolmap h5py"),
    "backbones": ("pretrained backbones and models from the Hugging Face Hub", "transformers"),
}
EXTRAS = {extra: purpose for extra, (purpose, _) in _EXTRAS.items() if extra}
"""What each extra is for."""

# What Python calls packages where it is not the name with underscores.
_MODULES = {
    "pillow": "PIL.Image",
    "safetensors": "safetensors.torch",
    "faiss-cpu": "faiss",
    "opencv-python-headless": "cv2",
    "pyyaml": "yaml",
}


@dataclass(frozen=True)
class Package:
    """A package, and what became of it.

    Attributes:
        name: As pip calls it.
        module: As Python calls it.
        extra: What brings it; "" if solar needs it.
        state: `works`, `installed` (not tried), `missing` or `broken`.
        why: What it said when it was imported, if it is broken.
    """

    name: str
    module: str
    extra: str = ""
    version: str = ""
    state: str = ""
    why: str = ""

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


def examined(package: Package, answer: Attempt | None) -> Package:
    """What became of a package; `answer` is the result of importing it, if that was tried."""
    if not package.installed:
        return replace(package, state="missing")
    version = _version(package)
    if answer is None or answer.works:
        return replace(package, version=version, state="works" if answer else "installed")
    return replace(package, version=version, state="broken", why=answer.text)


def install_line(extra: str = "") -> str:
    """What to type to get an extra, or the package itself."""
    return f'pip install "solar-retrieval[{extra}]"' if extra else "pip install solar-retrieval"


def _version(package: Package) -> str:
    try:
        return metadata.version(package.name)
    except metadata.PackageNotFoundError:  # `faiss-gpu` provides the same module, for example
        others = metadata.packages_distributions().get(package.module.partition(".")[0], [])
        return metadata.version(others[0]) if others else ""
