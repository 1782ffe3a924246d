"""Patches through a patch network, faster: what it computes stays the same.

On a CPU batch norms are folded into their convolutions, feature maps lie channels-last, the last
convolution, which sees its whole map at once, is one matrix product, and patches come in batches
small enough for the processor's cache: about twice as fast in all as plain batches of 512.

Every core takes whole batches. The layers of a batch are too small to be shared between cores: each
would end in a wait for the slowest, and on cores that other programs use, too, these waits take
many times as long as the work.

Other runtimes than torch (see `solar.describe.cpu.backends`): `open_patch_backend`. int8 takes its
ranges from patches that are drawn from a seed, not from photos: a network always becomes the same
int8 network, so that features of different days can be compared. Patches are standardised before
the first convolution, and ranges from drawn ones do as well as from real ones
(docs/local-features.md).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Barrier, Lock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.arrays import Doubles, Floats
from solar.describe.cpu.backends import Trial, check_backend, start_backend
from solar.describe.cpu.libraries import Array, Run
from solar.models import PatchNet
from solar.nn.fused import folded
from solar.nn.l2net import unit

_BATCH = 64  # patches whose feature maps fit a core's cache

INT8_PATCH_COSINE = 0.98
"""What the worst of the patches must reach that int8 is tried on."""

# With four times as many, a rare extreme widens the ranges: real patches come out twice as far off.
_BATCHES = 4
_SIDE = 32


class FusedPatchNet(nn.Module):
    """A frozen copy of a patch network, for the CPU; the network is left as it is."""

    weight: Tensor
    bias: Tensor

    def __init__(self, net: PatchNet) -> None:
        super().__init__()
        backbone = copy.deepcopy(net.trunk).eval()  # other threads may use the network meanwhile
        self.standardise = backbone.standardise
        self.layers = backbone.fuse()
        self.layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        last = folded(backbone.layer7)
        self.register_buffer("weight", last.weight.permute(0, 2, 3, 1).flatten(1).contiguous())
        self.register_buffer("bias", last.bias)

    def forward(self, patches: Tensor) -> Tensor:
        """Shape: (n, 1, 32, 32) to (n, 128), unit norm."""
        x = self.standardise(patches).contiguous(memory_format=torch.channels_last)
        x = self.layers(x).permute(0, 2, 3, 1).flatten(1)
        return unit(F.linear(x, self.weight, self.bias))


def patch_descriptors(model: PatchNet, patches: Tensor) -> Floats:
    """Describe patches (n, 1, 32, 32) of any brightness range, by batches, where the network is.

    Returns (n, 128), unit rows; on a CPU within rounding of what the network itself returns.
    """
    return descriptors_of(model, len(patches), lambda batch: patches[batch])


def descriptors_of(model: PatchNet, count: int, patches: Callable[[slice], Tensor]) -> Floats:
    """As `patch_descriptors`, of patches that are cut when their batch is described.

    `patches` is asked for each batch of the `count` patches once; on a CPU by several threads.
    """
    if model.device.type != "cpu":
        return model.describe(patches(slice(None)))
    rows = np.empty((count, model.dim), np.float32)
    batches = [slice(start, start + _BATCH) for start in range(0, count, _BATCH)]
    net = FusedPatchNet(model).eval()

    def describe(batch: slice) -> None:
        rows[batch] = model.describe(patches(batch), forward=net)

    _on_all_cores(describe, batches)
    return rows


def _on_all_cores(work: Callable[[slice], None], batches: Sequence[slice]) -> None:
    """Do the work of every batch, as many batches at a time as torch has threads."""
    cores = min(torch.get_num_threads(), len(batches))
    if cores < 2:
        for batch in batches:
            work(batch)
        return
    with _WHOLE_MACHINE, _single_threads(cores) as threads:
        for _ in threads.map(work, batches):  # raises what a thread raised
            pass


# Photos that are described at the same time take turns: each has all cores.
_WHOLE_MACHINE = Lock()


@contextmanager
def _single_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads in each of which torch computes on one core, as it does nowhere else."""
    before = torch.get_num_threads()
    started = Barrier(count + 1)

    def start() -> None:
        torch.get_num_threads()  # the first call in a thread takes the number of all threads
        torch.set_num_threads(1)  # that of this thread, and of threads that start later
        started.wait()

    with ThreadPoolExecutor(count, initializer=start) as threads:
        try:
            for _ in range(count):  # a thread starts when there is something to do
                threads.submit(int)
            started.wait()
        finally:
            torch.set_num_threads(before)
        yield threads


@dataclass(frozen=True, eq=False)
class PatchBackend:
    """A patch network on another runtime; it describes keypoints wherever the network does."""

    net: PatchNet
    name: str  # of the backend that really runs
    _run: Run
    # A runtime takes one batch at a time, and has all cores for it.
    _turn: Lock = field(default_factory=Lock)

    dim = PatchNet.dim
    device = torch.device("cpu")

    @property
    def source(self) -> str | None:
        """Its name in results."""
        return None if self.net.source is None else f"{self.net.source}, {self.name}"

    def descriptors_of(self, count: int, patches: Callable[[slice], Tensor]) -> Floats:
        """As the function `descriptors_of`."""
        rows = np.empty((count, self.dim), np.float32)
        with self._turn:
            for start in range(0, count, _BATCH):
                batch = slice(start, start + _BATCH)
                rows[batch] = self._run(self.net.transforms(patches(batch)).numpy())
        return rows


def open_patch_backend(model: PatchNet, name: str) -> PatchBackend | PatchNet:
    """Prepare a patch network to run on a backend; the network itself for torch.

    The first time this takes some seconds. Where the backend does not work, another one is used,
    which a warning says. A SolarError if there is no such backend, its package is missing, or the
    model is not on the CPU.
    """
    check_backend(model, name)
    batches = list(drawn_patches(_BATCHES * _BATCH).reshape(_BATCHES, _BATCH, 1, _SIDE, _SIDE))
    trial = Trial(batches[:2], batches, INT8_PATCH_COSINE)
    name, run = start_backend(model, name, trial)
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


def _noise(random: np.random.Generator) -> Doubles:
    """Noise of unit variance, from white to cloudy."""
    line = np.fft.fftfreq(_SIDE)
    frequency = np.maximum(np.hypot(line[:, None], line), 1 / _SIDE)
    white = np.fft.fft2(random.normal(size=(_SIDE, _SIDE)))
    noise = np.fft.ifft2(white * frequency ** -random.uniform(0, 2)).real
    unit: Doubles = noise / noise.std()
    return unit
