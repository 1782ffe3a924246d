"""Poolings: GeM, DAME, the others of the paper's comparison, and pooling by regions."""

from collections.abc import Callable, Iterator
from math import floor

import numpy as np
import torch
from torch import Tensor, nn

from solar.nn.local_pooling import Delf, Delg, How, LocalPooling

EPS = 1e-6
"""Floor under every activation, whose power has no gradient for p at zero; added to norms."""


class DAME(nn.Module):
    """Generalised mean with an exponent between 1 and 5, by how much each channel varies.

    A layer takes the variances v of the channels over all locations to one exponent per image,
    p = 1 + 4·sigmoid(w·v + b). It starts at 0, which is GeM with p = 3.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(channels, 1)
        nn.init.zeros_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def exponents(self, x: Tensor) -> Tensor:
        """The exponent of each image: (b, c, h, w) to (b,) in float32."""
        with torch.autocast(x.device.type, enabled=False):
            x = x.float().flatten(2)
            # A single location does not vary.
            apart = (x - x.mean(dim=2, keepdim=True)).square().sum(dim=2)
            variance = apart / max(x.shape[2] - 1, 1)
            p: Tensor = 1 + 4 * torch.sigmoid(self.fc(variance)[:, 0])
            return p

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) of any precision to (b, c) in float32."""
        p = self.exponents(x)
        with torch.autocast(x.device.type, enabled=False):
            powers = x.float().clamp(min=EPS).pow(p[:, None, None, None])
            return powers.mean(dim=(2, 3)).pow(1 / p[:, None])

    def split(self, x: Tensor) -> Tensor:
        """See `GeM.split`."""
        powers = x.float().clamp(min=EPS).pow(self.exponents(x)[:, None, None, None])
        return _split(powers, self.forward(x))


class GeM(nn.Module):
    """Generalised mean over all locations, between the average (p = 1) and the maximum (p → ∞).

    Example:
        >>> pool = GeM(p=3.0)
        >>> pool(torch.rand(2, 512, 12, 16)).shape
        torch.Size([2, 512])

    Args:
        p: Where the exponent starts.
        channels: For one exponent per channel ("GeMmp"); None shares one among all.
        learned: Off: p stays as it is, but is saved with the network all the same.
    """

    p: Tensor

    def __init__(
        self, p: float = 3.0, channels: int | None = None, *, learned: bool = True
    ) -> None:
        super().__init__()
        start = torch.full((channels or 1,), float(p))
        if learned:
            self.p = nn.Parameter(start)
        else:
            self.register_buffer("p", start)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) of any precision to (b, c) in float32."""
        with torch.autocast(x.device.type, enabled=False):
            p = self.p.float()[:, None, None]
            powers = x.float().clamp(min=EPS).pow(p)
            return powers.mean(dim=(2, 3)).pow(1 / p[..., 0, 0])  # paper, equation 1

    def split(self, x: Tensor) -> Tensor:
        """The contribution of each location to the mean, (b, c, h, w)."""
        powers = x.float().clamp(min=EPS).pow(self.p.float()[:, None, None])
        return _split(powers, self.forward(x))


def _split(powers: Tensor, pooled: Tensor) -> Tensor:
    """Pooled vectors (b, c) as sums over locations, in the proportion of `powers` (b, c, h, w)."""
    return pooled[:, :, None, None] * (powers / powers.sum(dim=(2, 3), keepdim=True))


def l2_normalize(x: Tensor, dim: int = 1) -> Tensor:
    """Divide by the L2 norm along `dim` plus `EPS`; half-precision input comes out in float32.

    The published networks *add* the epsilon to the norm, where `torch.nn.functional.normalize`
    takes the larger of the two: a unit vector comes out a millionth shorter than one.
    """
    x = x.float() if x.dtype.itemsize < 4 else x
    norm: Tensor = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    return x / (norm + EPS)


class MAC(nn.Module):
    """Maximum over all locations."""

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to (b, c)."""
        return x.amax(dim=(2, 3))

    def split(self, x: Tensor) -> Tensor:
        """See `GeM.split`; equal maxima share their value."""
        highest = (x == x.amax(dim=(2, 3), keepdim=True)).float()
        return x * highest / highest.sum(dim=(2, 3), keepdim=True)


class SPoC(nn.Module):
    """Average over all locations."""

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to (b, c)."""
        return x.mean(dim=(2, 3))

    def split(self, x: Tensor) -> Tensor:
        """See `GeM.split`."""
        return x / (x.shape[2] * x.shape[3])


class CroW(nn.Module):
    """Cross-dimensional weighting: busy locations and rarely active channels count more.

    A location weighs by the root of its total activation, normalised over the map; a channel
    weighs by the logarithm of how rarely it fires.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to (b, c)."""
        x = x.float().clamp(min=0)
        energy = x.sum(dim=1, keepdim=True)
        total = energy.square().sum(dim=(2, 3), keepdim=True).sqrt()
        spatial = (energy / (total + EPS)).sqrt()
        firing = (x > 0).float().mean(dim=(2, 3))
        rarity = torch.log((EPS + firing.sum(1, keepdim=True)) / (EPS + firing))
        return (x * spatial).sum(dim=(2, 3)) * rarity


class Regional(nn.Module):
    """Any pooling applied to R-MAC's regions, each normalised, optionally whitened, and summed."""

    def __init__(self, pool: nn.Module, whiten: nn.Linear | None = None) -> None:
        super().__init__()
        self.pool, self.whiten = pool, whiten

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to (b, c), not normalised again."""
        h, w = x.shape[2:]
        boxes = [(0, 0, h, w), *square_regions(h, w)]
        vectors = [self.pool(x[:, :, top:bottom, left:right]) for top, left, bottom, right in boxes]
        regions = l2_normalize(torch.stack(vectors, dim=1), dim=2)
        if self.whiten is not None:
            regions = l2_normalize(self.whiten(regions), dim=2)
        return regions.sum(dim=1)


class RMAC(Regional):
    """Sum of the L2-normalised maxima of the whole map and of square regions at several scales."""

    def __init__(self) -> None:
        super().__init__(MAC())


def square_regions(height: int, width: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield R-MAC's grid of squares as (top, left, bottom, right).

    Level l of three has squares of side ⌊2·short / (l + 1)⌋, l along the short side and as many
    more along the long side as bring neighbours of the first level closest to an overlap of 0.4.
    """
    short, long = min(height, width), max(height, width)
    extra = 0 if height == width else _closest_overlap(short, long) - 1
    for level in (1, 2, 3):
        side = floor(2 * short / (level + 1))
        if side == 0:
            continue
        tops = _starts(height, side, level + (extra if height > width else 0))
        lefts = _starts(width, side, level + (extra if width > height else 0))
        yield from ((top, left, top + side, left + side) for top in tops for left in lefts)


# Both in single precision and in the published order of operations: in double precision, ties and
# whole numbers round another way for one map shape in a hundred, and other squares come out.


def _closest_overlap(short: int, long: int) -> int:
    steps = np.float32(long - short) * (1 / np.arange(1, 7, dtype=np.float32))
    area = np.float32(short**2)
    errors = np.abs((area - np.float32(short) * steps) / area - np.float32(0.4))
    return int(errors.argmin()) + 2


def _starts(length: int, side: int, count: int) -> list[int]:
    step = np.float32((length - side) / (count - 1) if count > 1 else 0.0)
    half = side // 2 - 1  # the published code places centres, and subtracts it again
    starts = np.floor(np.float32(half) + np.arange(count, dtype=np.float32) * step) - half
    return [int(start) for start in starts]


class ClassToken(nn.Module):
    """The class token of a vision transformer, which stands in the place of the map."""

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, 1, 1) to (b, c)."""
        return x[:, :, 0, 0]


class ClassTokenGeM(nn.Module):
    """A class token and GeM of the map, each of unit length: twice the channels of either.

    Its input has the map's channels, then the token's, the same at every location.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gem, self.width = GeM(), channels // 2

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, 2·c, h, w) to (b, 2·c), the token first."""
        features, token = x[:, : -self.width], x[:, -self.width :, 0, 0].float()
        return torch.cat([l2_normalize(token), l2_normalize(self.gem(features))], dim=1)


LOCAL_POOLINGS: dict[str, type[LocalPooling]] = {"how": How, "delf": Delf, "delg": Delg}
"""Those that are sums of local features."""

# By the names in published checkpoints; each takes the channels of the map.
POOLINGS: dict[str, Callable[[int], nn.Module]] = {
    "gem": lambda channels: GeM(),
    "gemmp": lambda channels: GeM(channels=channels),
    "gem-fixed": lambda channels: GeM(learned=False),
    "mac": lambda channels: MAC(),
    "spoc": lambda channels: SPoC(),
    "mean": lambda channels: SPoC(),
    "crow": lambda channels: CroW(),
    "rmac": lambda channels: RMAC(),
    "dame": DAME,
    "cls": lambda channels: ClassToken(),
    "cls+gem": ClassTokenGeM,
    **LOCAL_POOLINGS,
}
