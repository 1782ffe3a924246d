"""Poolings that are sums of local features, each with a strength: HOW and its kin.

Tolias, Jenicek and Chum, "Learning and aggregating deep local descriptors for instance-level
recognition" (ECCV 2020). A photo is trained by one vector, the sum; it is searched by its strongest
local features (`solar.local.networks`, `solar.asmk.kernel`).
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SEVEN_SCALES = (2.0, 1.414, 1.0, 0.707, 0.5, 0.353, 0.25)


class LocalPooling(nn.Module, ABC):
    """Feature maps to local features, and to the vector by which they are trained.

    Attributes:
        dim: Length of that vector.
        local_dim: Length of a local descriptor.
        unit: Whether local descriptors are of unit norm.
        scales: Of the photo, at which local features are taken.
        selection: Which of them are kept: the "strongest" of all scales; or, with "suppression",
            those above a threshold of which none covers the same as a stronger one.
    """

    dim: int
    local_dim: int
    unit: ClassVar[bool] = True
    scales: ClassVar[tuple[float, ...]] = SEVEN_SCALES
    selection: ClassVar[Literal["strongest", "suppression"]] = "strongest"

    @abstractmethod
    def local(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps (b, c, h, w) to strengths (b, h, w) and descriptors (b, local_dim, h, w)."""


class How(LocalPooling):
    """HOW: strong is what has a large norm; descriptors are smoothed, whitened and shortened.

    The whitening `reduce` comes from a PCA of local descriptors (`start_from`) and is not trained.
    """

    unit = False

    def __init__(self, channels: int, dim: int = 128) -> None:
        super().__init__()
        self.dim = self.local_dim = dim = min(dim, channels)
        self.reduce = nn.Conv2d(channels, dim, 1)

    def local(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See `LocalPooling`; strengths are not yet divided by the photo's largest."""
        x = x.float()
        # The published attention has its epsilon inside the root, so that no gradient is infinite.
        strength = (x.square().sum(dim=1) + 1e-10).sqrt()
        return strength, self.reduce(smoothed(x))

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to (b, dim), not normalised."""
        strength, descriptors = self.local(x)
        share = strength / strength.amax(dim=(1, 2), keepdim=True)
        return (share[:, None] * descriptors).sum(dim=(2, 3))

    @torch.no_grad()
    def start_from(self, weight: Tensor, bias: Tensor) -> None:
        """Take over a whitening: weight (≥ dim, c) with the main directions first, and bias."""
        self.reduce.weight.copy_(weight[: self.dim, :, None, None])
        self.reduce.bias.copy_(bias[: self.dim])  # type: ignore[union-attr]


def smoothed(x: Tensor) -> Tensor:
    """The mean of 3×3 locations, at the border of those that exist; shape as given."""
    return F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
