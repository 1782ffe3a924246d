"""Patches through a patch network, faster: what it computes stays the same.

On a CPU batch norms are folded into their convolutions, feature maps lie channels-last, the last
convolution, which sees its whole map at once, is one matrix product, and patches come in batches
small enough for the processor's cache: about twice as fast in all as plain batches of 512.

Every core takes whole batches. The layers of a batch are too small to be shared between cores: each
would end in a wait for the slowest, and on cores that other programs use, too, these waits take
many times as long as the work.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Lock

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from solar.models import PatchNet
from solar.nn.fused import folded
from solar.nn.l2net import unit

_BATCH = 64  # patches whose feature maps fit a core's cache


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


def patch_descriptors(model: PatchNet, patches: Tensor) -> NDArray[np.float32]:
    """Describe patches (n, 1, 32, 32) of any brightness range, by batches, where the network is.

    Returns (n, 128), unit rows; on a CPU within rounding of what the network itself returns.
    """
    return descriptors_of(model, len(patches), lambda batch: patches[batch])


def descriptors_of(
    model: PatchNet, count: int, patches: Callable[[slice], Tensor]
) -> NDArray[np.float32]:
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
    """Threads in each of which torch computes on one core; elsewhere it goes on as before."""
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
