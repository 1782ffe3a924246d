"""Patches described by another runtime than torch, see `solar.describe.backends`.

int8 takes its ranges from patches that are drawn from a seed, not from photos: a network always
becomes the same int8 network, so that features of different days can be compared. Patches are
standardised before the first convolution, and ranges from drawn ones do as well as from real ones
(docs/local-features.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from solar.describe.backends import Trial, check_backend, start_backend
from solar.describe.runtime import Array, Run
from solar.models import PatchNet

INT8_PATCH_COSINE = 0.98
"""What the worst of the patches must reach that int8 is tried on."""

_BATCH = 64
# With four times as many, a rare extreme widens the ranges: real patches come out twice as far off.
_BATCHES = 4
_SIDE = 32


@dataclass(frozen=True, eq=False)
class PatchBackend:
    """A patch network on another runtime; it describes keypoints wherever the network does.

    Attributes:
        net: The network.
        name: Of the backend that really runs.
    """

    net: PatchNet
    name: str
    _run: Run
    # A runtime takes one batch at a time, and has all cores for it.
    _turn: Lock = field(default_factory=Lock)

    dim = PatchNet.dim
    device = torch.device("cpu")

    @property
    def source(self) -> str | None:
        """What to call it in a result."""
        return None if self.net.source is None else f"{self.net.source}, {self.name}"

    def descriptors_of(self, count: int, patches: Callable[[slice], Tensor]) -> NDArray[np.float32]:
        """As `solar.local.patch_network.descriptors_of`."""
        rows = np.empty((count, self.dim), np.float32)
        with self._turn:
            for start in range(0, count, _BATCH):
                batch = slice(start, start + _BATCH)
                rows[batch] = self._run(self.net.transforms(patches(batch)).numpy())
        return rows


def open_patch_backend(
    model: PatchNet, name: str, *, threads: int | None = None
) -> PatchBackend | PatchNet:
    """Prepare a patch network to run on a backend; the network itself for torch.

    The first time this takes some seconds. Where the backend does not work, another one is used,
    which a warning says. A SolarError if there is no such backend, its package is missing, or the
    model is not on the CPU.
    """
    check_backend(model, name)
    batches = list(drawn_patches(_BATCHES * _BATCH).reshape(_BATCHES, _BATCH, 1, _SIDE, _SIDE))
    trial = Trial(batches[:2], batches, INT8_PATCH_COSINE)
    name, run = start_backend(model, name, trial, threads)
    return model if run is None else PatchBackend(model, name, run)


def drawn_patches(count: int, seed: int = 0) -> Array:
    """Patches (count, 1, 32, 32) of edges, corners and noise, each sharp or smooth: 0 to 255."""
    random = np.random.default_rng(seed)
    return np.stack([_drawn(random) for _ in range(count)])[:, None]


def _drawn(random: np.random.Generator) -> Array:
    line = np.linspace(-1, 1, _SIDE)
    down, across = np.meshgrid(line, line, indexing="ij")
    picture = np.zeros((_SIDE, _SIDE))
    for _ in range(random.integers(1, 7)):
        turns, offsets = random.uniform(0, 2 * np.pi, 2), random.uniform(-0.7, 0.7, 2)
        sharpness = 10 ** random.uniform(0.5, 2.5)
        one, other = (
            0.5 + 0.5 * np.tanh(sharpness * (across * np.cos(t) + down * np.sin(t) - offset) / 2)
            for t, offset in zip(turns, offsets, strict=True)
        )
        picture += random.normal() * (one * other if random.random() < 0.5 else one)
    picture += 10 ** random.uniform(-2, 0.3) * _noise(random)
    darkest, brightest = picture.min(), picture.max()
    drawn: Array = (255 * (picture - darkest) / (brightest - darkest)).astype(np.float32)
    return drawn


def _noise(random: np.random.Generator) -> NDArray[np.float64]:
    """Noise of unit variance, from white to cloudy."""
    line = np.fft.fftfreq(_SIDE)
    frequency = np.maximum(np.hypot(line[:, None], line), 1 / _SIDE)
    white = np.fft.fft2(random.normal(size=(_SIDE, _SIDE)))
    noise = np.fft.ifft2(white * frequency ** -random.uniform(0, 2)).real
    unit: NDArray[np.float64] = noise / noise.std()
    return unit
