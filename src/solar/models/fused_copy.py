"""A fused copy of a network's backbone, with which it describes photos on a CPU.

Batch norms are folded into convolutions, and maps lie channels-last: the same descriptors to about
1e-6, a sixth sooner (`benchmarks/describe_cpu.py`). Making the copy takes less than one photo does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from solar.nn import Backbone


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

    def forward(
        self, backbone: Backbone, head: Callable[[Tensor], Tensor], *, clamped: bool
    ) -> Callable[[Tensor], Tensor] | None:
        """What gives the same as backbone and head, sooner; None if there is no such thing.

        Only on a CPU, in float32, and while the backbone is neither trained nor watched by hooks.
        `clamped` as for `Backbone.fuse`.
        """
        if not _can_be_fused(backbone):
            return None
        tensors = [*backbone.parameters(), *backbone.buffers()]
        made = self._made
        if made is None or not _unchanged(made[0], tensors):
            with torch.no_grad():
                fused: nn.Module = backbone.fuse(clamped=clamped)
                fused.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            # Holding on to what it was made of, nothing else can come to lie in its place.
            made = self._made = [(tensor.detach(), tensor._version) for tensor in tensors], fused
        fast = made[1]
        return lambda images: head(fast(images))


def _can_be_fused(backbone: Backbone) -> bool:
    return (
        backbone.fusable
        and not backbone.training
        and all(p.device.type == "cpu" and p.dtype == torch.float32 for p in backbone.parameters())
        and not any(t.is_inference() for t in (*backbone.parameters(), *backbone.buffers()))
        and not any(m._forward_hooks or m._forward_pre_hooks for m in backbone.modules())
    )


def _unchanged(before: list[tuple[Tensor, int]], now: list[Tensor]) -> bool:
    return len(before) == len(now) and all(
        tensor.data_ptr() == old.data_ptr() and tensor._version == version
        for (old, version), tensor in zip(before, now, strict=True)
    )
