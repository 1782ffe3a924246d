"""A fused copy of a network's backbone, with which it describes photos on a CPU.

Batch norms are folded into convolutions, and maps lie channels-last: the same descriptors to about
1e-6, a fifth sooner (`benchmarks/describe_cpu.py`). Making the copy takes less than one photo does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from solar.nn import GeM

if TYPE_CHECKING:
    from solar.models.retrieval_net import RetrievalNet


def fuse_backbone(net: RetrievalNet, *, on_blocks: bool = False) -> nn.Sequential:
    """A fused copy of a network's backbone, if that is `fusable`; see `Backbone.fuse`."""
    # GeM raises negative values to its floor, so that an attention block that comes last may end in
    # a ReLU, which its convolution has for nothing. Other poolings see them.
    clamped = isinstance(net.pool, GeM) and net.local_whiten is None
    return net.backbone.fuse(on_blocks=on_blocks, clamped=clamped)


class FusedCopy:
    """Belongs to one network; made when photos are first described, anew once weights changed.

    Copies of the network, and files that it is pickled into, begin without one.
    """

    def __init__(self) -> None:
        self._made: tuple[list[tuple[Tensor, int]], nn.Module] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> FusedCopy:
        return FusedCopy()

    def __reduce__(self) -> tuple[type[FusedCopy], tuple[()]]:
        return FusedCopy, ()

    def forward_scale(self, net: RetrievalNet) -> Callable[[Tensor], Tensor] | None:
        """What gives the same as the network's own `forward_scale`, sooner; None for nothing.

        Only on a CPU, in float32, and while the network is neither trained nor watched by hooks.
        """
        if not _can_be_fused(net):
            return None
        tensors = [*net.backbone.parameters(), *net.backbone.buffers()]
        made = self._made
        if made is None or not _unchanged(made[0], tensors):
            with torch.no_grad():
                fused = fuse_backbone(net).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            # Holding on to what it was made of, nothing else can come to lie in its place.
            made = self._made = [(tensor.detach(), tensor._version) for tensor in tensors], fused
        backbone = made[1]
        return lambda images: net.head(backbone(images))


def _can_be_fused(net: RetrievalNet) -> bool:
    return (
        net.backbone.fusable
        and not net.training
        and all(p.device.type == "cpu" and p.dtype == torch.float32 for p in net.parameters())
        and not any(t.is_inference() for t in (*net.parameters(), *net.buffers()))
        and not any(m._forward_hooks or m._forward_pre_hooks for m in net.backbone.modules())
    )


def _unchanged(before: list[tuple[Tensor, int]], now: list[Tensor]) -> bool:
    return len(before) == len(now) and all(
        tensor.data_ptr() == old.data_ptr() and tensor._version == version
        for (old, version), tensor in zip(before, now, strict=True)
    )
