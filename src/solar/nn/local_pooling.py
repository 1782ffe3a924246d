"""Poolings that are sums of local features, each with a strength: HOW, DELF and DELG.

A photo is trained by one vector, the sum; it is searched by its strongest local features
(`solar.local.learned`, `solar.asmk.kernel`).

- HOW: Tolias, Jenicek and Chum, "Learning and aggregating deep local descriptors for
  instance-level recognition" (ECCV 2020).
- DELF: Noh et al., "Large-scale image retrieval with attentive deep local features" (ICCV 2017).
  Attention weighs the locations of a conv4 map; its descriptors are short codes, from which an
  autoencoder restores the map.
- DELG: Cao, Araujo and Sim, "Unifying deep local and global features for image search" (ECCV 2020).
  Its PyTorch port has no autoencoder, and takes descriptors from inside the attention.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SEVEN_SCALES = (2.0, 1.414, 1.0, 0.707, 0.5, 0.353, 0.25)

RECONSTRUCTION = 10.0
"""Weight of the autoencoder's loss in training, as published."""


class LocalPooling(nn.Module, ABC):
    """Feature maps to local features, and to the vector by which they are trained."""

    dim: int  # of that vector
    local_dim: int  # of a local descriptor
    unit: ClassVar[bool] = True  # whether local descriptors are of unit norm
    scales: ClassVar[tuple[float, ...]] = SEVEN_SCALES
    # Keep the strongest of all scales, or those above a threshold that overlap no stronger one.
    selection: ClassVar[Literal["strongest", "suppression"]] = "strongest"

    @abstractmethod
    def local(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps (b, c, h, w) to strengths (b, h, w) and descriptors (b, local_dim, h, w)."""


class How(LocalPooling):
    """HOW: the strength is the norm; descriptors are smoothed, whitened and shortened.

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


class _ScoredLocations(nn.Module):
    """Two 1×1 convolutions from a location to its weight."""

    def __init__(self, channels: int, inner: int, eps: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, inner, 1)
        self.bn = nn.BatchNorm2d(inner, eps=eps)
        self.conv2 = nn.Conv2d(inner, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps (b, c, h, w) to scores (b, h, w) and what is inside (b, inner, h, w)."""
        inside = self.bn(self.conv1(x))
        return F.softplus(self.conv2(inside.relu()))[:, 0], inside


class _Autoencoder(nn.Module):
    def __init__(self, channels: int, code: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, code, 1)
        self.conv2 = nn.Conv2d(code, channels, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.conv1(x)
        return code, self.conv2(code).relu()


class Delf(LocalPooling):
    """DELF: codes of an autoencoder, weighed by attention.

    In training the gradient of the autoencoder's loss joins that of the pooled vector's loss.
    """

    selection = "suppression"

    def __init__(self, channels: int, inner: int = 512, code: int = 128) -> None:
        super().__init__()
        self.dim, self.local_dim = channels, code
        self.attention = _ScoredLocations(channels, inner, eps=1e-3)  # that of Keras
        self.autoencoder = _Autoencoder(channels, code)

    def local(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See `LocalPooling`."""
        x = x.float()
        return self.attention(x)[0], F.normalize(self.autoencoder.conv1(x))

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to (b, c), not normalised."""
        x = x.float()
        score, _ = self.attention(x)
        _, restored = self.autoencoder(x)
        pooled = _weighed(score, restored)
        if self.training and torch.is_grad_enabled():
            lost = RECONSTRUCTION * F.mse_loss(restored, x)
            pooled = _MinimisedToo.apply(pooled, lost)  # type: ignore[no-untyped-call]
        return pooled


class Delg(LocalPooling):
    """The local branch of DELG in its PyTorch port: 512 numbers from inside the attention."""

    selection = "suppression"

    def __init__(self, channels: int, inner: int = 512) -> None:
        super().__init__()
        self.dim = self.local_dim = inner
        self.attention = _ScoredLocations(channels, inner, eps=1e-5)

    def local(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See `LocalPooling`."""
        score, inside = self.attention(x.float())
        return score, F.normalize(inside)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to (b, inner), not normalised."""
        return _weighed(*self.attention(x.float()))


def _weighed(score: Tensor, x: Tensor) -> Tensor:
    """The mean over locations of unit columns of x (b, c, h, w), each times its score."""
    return (score[:, None] * F.normalize(x)).mean(dim=(2, 3))


class _MinimisedToo(torch.autograd.Function):
    """Passes rows on; in the backward pass a loss gets the gradient that minimises it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, loss: Tensor) -> Tensor:
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        return gradients[0], gradients[0].new_ones(())
