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
class Part:
    """A package.

    Attributes:
        name: What pip calls it.
        module: What Python calls it.
        extra: The extra of solar that brings it; empty where solar cannot do without it.
    """

    name: str
    module: str
    extra: str = ""


PARTS: tuple[Part, ...] = (
    Part("torch", "torch"),
    Part("numpy", "numpy"),
    Part("pillow", "PIL.Image"),
    Part("safetensors", "safetensors.torch"),
    Part("faiss-cpu", "faiss"),
    Part("typer", "typer"),
    Part("rich", "rich"),
    Part("platformdirs", "platformdirs"),
    Part("filelock", "filelock"),
    Part("opencv-python-headless", "cv2", "local"),
    Part("fastapi", "fastapi", "web"),
    Part("uvicorn", "uvicorn", "web"),
    Part("python-multipart", "python_multipart", "web"),
    Part("pyyaml", "yaml", "train"),
    Part("tensorboard", "tensorboard", "train"),
    Part("pillow-heif", "pillow_heif", "heic"),
    Part("matplotlib", "matplotlib", "show"),
    Part("scikit-learn", "sklearn", "show"),
    Part("onnx", "onnx", "export"),
    Part("onnxscript", "onnxscript", "export"),
    Part("onnxruntime", "onnxruntime", "export"),
    Part("openvino", "openvino", "export"),
    Part("dask", "dask", "dask"),
    Part("distributed", "distributed", "dask"),
    Part("pymilvus", "pymilvus", "milvus"),
    *([Part("milvus-lite", "milvus_lite", "milvus")] if sys.platform != "win32" else []),
)


@dataclass(frozen=True)
class Found:
    """What became of a part.

    Attributes:
        name: What pip calls it.
        extra: As of the part.
        version: Empty where it is missing, or does not tell.
        state: "installed" where nobody tried to import it.
        why: What it said when it was imported, where it is broken.
    """

    name: str
    extra: str
    version: str
    state: State
    why: str = ""


def is_installed(part: Part) -> bool:
    """Whether it can be imported, as far as can be said without doing so."""
    try:
        return find_spec(part.module.partition(".")[0]) is not None
    except (ImportError, ValueError):  # what a half removed package may raise
        return False


def found(part: Part, answer: Attempt | None) -> Found:
    """What became of a part.

    Args:
        part: The part.
        answer: What came of importing it; None if nobody tried.
    """
    if not is_installed(part):
        return Found(part.name, part.extra, "", "missing")
    if answer is None or answer.works:
        state: State = "works" if answer else "installed"
        return Found(part.name, part.extra, _version(part), state)
    return Found(part.name, part.extra, _version(part), "broken", answer.text)


def install_line(extra: str = "") -> str:
    """What to type to get an extra, or the package itself."""
    return f'pip install "solar-retrieval[{extra}]"' if extra else "pip install solar-retrieval"


def _version(part: Part) -> str:
    """The version, also of a package that provides the same under another name."""
    try:
        return metadata.version(part.name)
    except metadata.PackageNotFoundError:
        others = metadata.packages_distributions().get(part.module.partition(".")[0], [])
        return metadata.version(others[0]) if others else ""
