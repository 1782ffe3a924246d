"""A fused copy of a network's backbone, with which it describes photos on a CPU.

Batch norms are folded into convolutions, and maps lie channels-last: the same descriptors to about
1e-6, a sixth sooner (`benchmarks/describe_cpu.py`). Making the copy takes less than one photo does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from solar.nn import Backbone

_Stamp: TypeAlias = tuple[Tensor, int, Tensor]
_LOOKED_AT = 64


class FusedCopy:
    """Belongs to one network; made when photos are first described, anew once weights changed.

    Copies of the network, and files that it is pickled into, begin without one.
    """

    def __init__(self) -> None:
        self._made: tuple[list[_Stamp], bool, nn.Module] | None = None

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
        if made is None or made[1] != clamped or not _unchanged(made[0], tensors):
            with torch.no_grad():
                fused: nn.Module = backbone.fuse(clamped=clamped)
                fused.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            made = self._made = [_stamp(tensor) for tensor in tensors], clamped, fused
        fast = made[2]
        return lambda images: head(fast(images))


def _can_be_fused(backbone: Backbone) -> bool:
    return (
        backbone.fusable
        and not backbone.training
        and all(p.device.type == "cpu" and p.dtype == torch.float32 for p in backbone.parameters())
        and not any(t.is_inference() for t in (*backbone.parameters(), *backbone.buffers()))
        and not any(m._forward_hooks or m._forward_pre_hooks for m in backbone.modules())
    )


def _stamp(tensor: Tensor) -> _Stamp:
    # Holding on to what the copy was made of, nothing else can come to lie in its place.
    return tensor.detach(), tensor._version, _some(tensor).clone()


def _some(tensor: Tensor) -> Tensor:
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, len(flat) // _LOOKED_AT)]


def _unchanged(before: list[_Stamp], now: list[Tensor]) -> bool:
    return len(before) == len(now) and all(
        tensor.data_ptr() == old.data_ptr()
        and tensor._version == version
        and torch.equal(_some(tensor), some)
        for (old, version, some), tensor in zip(before, now, strict=True)
    )
