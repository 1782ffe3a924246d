"""Networks as ONNX files: for ONNX Runtime, for int8, and for backbones of other libraries.

Our own networks run in OpenVINO as `solar.describe.cpu.graph`. `open_backend` is for photos;
`solar.local.patch_network` for patches shares the rest.

A runtime is only used where it has been seen to work: the first time a network meets a runtime
on a machine, a child process runs a few images through it, and the result must be torch's. A
crash there costs a sentence, not the program; the verdict is kept in the cache directory.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from solar import __version__
from solar.describe.cpu import libraries
from solar.describe.cpu.graph import GRAPHS
from solar.describe.cpu.libraries import Array, Run
from solar.describe.cpu.trial import Verdict, tried_out
from solar.describe.fast_net import FusedNet
from solar.errors import SolarError
from solar.files import LOCK, cache_directory, locked, make_folder
from solar.images import Source, load
from solar.models import Model, RetrievalNet, fingerprint
from solar.models.export import export_onnx, quantise_onnx, require

# What to use where a backend does not work.
_INSTEAD = {
    "onnxruntime": "torch",
    "openvino": "torch",
    "onnxruntime-int8": "onnxruntime",
    "openvino-int8": "openvino",
}
BACKENDS = ("torch", *_INSTEAD)

FLOAT32_COSINE = 0.99999
INT8_COSINE = 0.995
CALIBRATION_PHOTOS, CALIBRATION_SIZE = 16, 512


@dataclass(frozen=True)
class Backend:
    """A network's `forward_scale` for `multiscale`; the name is that of what really runs."""

    name: str
    _forward: Callable[[Tensor], Tensor]

    def __call__(self, images: Tensor | Array) -> Tensor:
        """Normalised float32 images (b, 3, h, w) to unit descriptors (b, dim)."""
        with torch.inference_mode():
            return self._forward(torch.as_tensor(images))


def open_backend(
    model: RetrievalNet,
    name: str = "torch",
    *,
    calibration: Iterable[Source] = (),
) -> Backend:
    """Prepare a network to run on one of `BACKENDS`, or on torch where that one does not work.

    The first time, the network is exported (15 s for a ResNet-101) and tried out. int8 takes its
    ranges from every other one of the first `CALIBRATION_PHOTOS`, at least two, and must reach
    `INT8_COSINE` on the rest, or float32 is used. A SolarError as for `check_backend`, or if int8
    was asked for without photos.
    """
    check_backend(model, name)
    if name == "torch":
        return Backend(name, FusedNet(model, dtype=torch.float32).net.forward_scale)
    batches = _batches(model, calibration) if name.endswith("-int8") else []
    if model.adapt is not None:  # it follows the average over scales: no part of what runs here
        model = model.with_adaptation(None)
    name, run = start_backend(model, name, Trial(_noise(), batches, INT8_COSINE))
    if run is None:
        return open_backend(model)
    return Backend(name, lambda images: torch.from_numpy(run(_array(images))))


def check_backend(model: Model, name: str) -> None:
    """A SolarError if there is no such backend, or it cannot be tried out with this network."""
    if name not in BACKENDS:
        known = ", ".join(("auto", *BACKENDS[:1], *GRAPHS[:1], *BACKENDS[1:]))
        raise SolarError(f"No backend is called {name!r}: choose from {known}.")
    if name == "torch":
        return
    runtime = name.removesuffix("-int8")
    if model.device.type != "cpu":
        raise SolarError(f"The backend {name} runs on a CPU: load the model with device='cpu'.")
    # Whatever the runtime, ONNX Runtime finds the ranges for int8.
    packages = {runtime, "onnxruntime"} if name != runtime else {runtime}
    require(*sorted(packages), "onnxscript", purpose=f"The backend {name}")


@dataclass(frozen=True)
class Trial:
    """Inputs that show whether a backend describes as torch does."""

    inputs: Sequence[Array]  # for float32
    batches: Sequence[Array]  # for int8: ranges come from every other one, the rest are tried
    int8_cosine: float  # that int8 must reach there


def start_backend(model: Model, name: str, trial: Trial) -> tuple[str, Run | None]:
    """Start a network on a backend, or another that works, with a warning; None runs torch."""
    threads = torch.get_num_threads()
    wanted, reason, run = name, "", None
    while name != "torch":
        file, verdict = _prepare(model, name, trial, threads)
        if verdict.works:
            runtime = name.removesuffix("-int8")
            run = libraries.start(
                runtime, file, threads, cap=verdict.cap, example=trial.inputs[0][:1]
            )
            break
        reason = reason or verdict.reason
        name = _INSTEAD[name]
    if reason:
        warnings.warn(
            f"The backend {wanted} does not work here, so {name} is used: {reason}.", stacklevel=3
        )
    return name, run


@dataclass(frozen=True)
class BackendNet:
    """A network on a backend: the network normalises, resizes and averages; `forward` the rest."""

    net: RetrievalNet
    forward: Backend
    scales: Sequence[float]

    @property
    def backend(self) -> str:
        """The name of what really runs."""
        return self.forward.name

    @property
    def device(self) -> torch.device:
        """Where pixels are expected."""
        return self.net.device

    def __call__(self, pixels: Tensor) -> Tensor:
        """Shape: (b, h, w, 3) bytes to (b, dim) float32, unit norm."""
        with torch.inference_mode():
            images = self.net.normalise(pixels.to(self.device))
            return self.net.multiscale(images, self.scales, forward=self.forward)


def _array(images: Tensor) -> Array:
    array: Array = images.detach().float().contiguous().numpy()
    return array


def _prepare(model: Model, name: str, trial: Trial, threads: int) -> "tuple[Path, Verdict]":
    runtime = name.removesuffix("-int8")
    folder = cache_directory() / "backends"
    make_folder(folder)
    # Several workers may start at once: one of them makes the files, the others find them.
    with locked(folder / LOCK):
        stem = f"{fingerprint(model)[:20]}-{__version__}"
        file = folder / f"{stem}.onnx"
        if not file.exists():
            export_onnx(model, file, scales=(1,))
        if name == runtime:
            return file, tried_out(model, runtime, file, trial.inputs, FLOAT32_COSINE, threads)
        # ONNX Runtime finds the ranges, in this process, so it must not die of that.
        verdict = tried_out(model, "onnxruntime", file, trial.inputs, FLOAT32_COSINE, threads)
        if not verdict.works:
            return file, verdict
        for recipe in ("fast", "careful"):
            int8 = folder / f"{stem}-{_digest(trial.batches)}-{recipe}-int8.onnx"
            if not int8.exists():
                quantise_onnx(file, int8, trial.batches[::2], attention=recipe == "fast")
            least, others = trial.int8_cosine, trial.batches[1::2]
            verdict = tried_out(model, runtime, int8, others, least, threads)
            if verdict.works:
                break
        return int8, verdict


def _batches(model: RetrievalNet, calibration: Iterable[Source]) -> list[Array]:
    photos = [photo for photo, _ in zip(calibration, range(CALIBRATION_PHOTOS), strict=False)]
    if len(photos) < 2:
        raise SolarError(
            "An int8 backend needs photos for calibration: give it at least two, preferably "
            f"{CALIBRATION_PHOTOS}, similar to those to be described."
        )
    size = min(CALIBRATION_SIZE, model.config.size)
    square = model.config.square
    pixels = (torch.from_numpy(load(one, size, square=square).pixels)[None] for one in photos)
    return [_array(model.normalise(batch)) for batch in pixels]


def _noise() -> list[Array]:
    random = np.random.default_rng(0)
    shapes = ((1, 3, 96, 128), (2, 3, 161, 99))
    return [random.standard_normal(shape, np.float32) for shape in shapes]


def _digest(batches: Iterable[Array]) -> str:
    digest = hashlib.sha256()
    for batch in batches:
        digest.update(str(batch.shape).encode() + batch.tobytes())
    return digest.hexdigest()[:12]
