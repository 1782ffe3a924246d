"""DELF and DELG: attention that is learnt says which locations of a conv4 map are worth matching.

Noh et al., "Large-scale image retrieval with attentive deep local features" (ICCV 2017); Cao,
Araujo and Sim, "Unifying deep local and global features for image search" (ECCV 2020). DELF's
descriptors are short codes, from which an autoencoder restores the map; the PyTorch port of DELG
has no autoencoder, and takes them from inside the attention.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.nn.local_pooling import LocalPooling

RECONSTRUCTION = 10.0
"""Weight of what the autoencoder loses, in the loss of a training, as published."""


class _ScoredLocations(nn.Module):
    """Two 1×1 convolutions from a location to how much it is worth."""

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
    """A location to a short code and back."""

    def __init__(self, channels: int, code: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, code, 1)
        self.conv2 = nn.Conv2d(code, channels, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps (b, c, h, w) to codes (b, code, h, w) and restored maps."""
        code = self.conv1(x)
        return code, self.conv2(code).relu()


class Delf(LocalPooling):
    """DELF: codes of an autoencoder, weighed by attention.

    While it is trained, what the autoencoder loses is minimised, too: its gradient joins that of
    whatever loss the pooled vector has.
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
