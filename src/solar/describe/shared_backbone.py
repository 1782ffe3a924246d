"""Several networks that differ only after the backbone, in one pass over the photos."""

from collections.abc import Sequence

import torch
from torch import Tensor

from solar.describe.fast_net import FusedNet
from solar.models import RetrievalNet


class SharedBackbone(FusedNet):
    """Several networks with one backbone: their descriptors side by side, (b, networks · dim)."""

    def __init__(
        self,
        nets: Sequence[RetrievalNet],
        *,
        scales: Sequence[float],
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(nets[0], scales=scales, dtype=dtype)
        self.heads = list(nets)

    def _describe(self, pixels: Tensor) -> Tensor:
        maps = [self.net.backbone(images) for images in self.inputs(pixels)]
        each = [head.average([head.head(features) for features in maps]) for head in self.heads]
        return torch.cat([_finite(rows) for rows in each], dim=1)


def _finite(rows: Tensor) -> Tensor:
    """Descriptors that left the range of float32 become zeros: photos that are ranked last."""
    return torch.where(rows.isfinite().all(dim=1, keepdim=True), rows, torch.zeros_like(rows))
