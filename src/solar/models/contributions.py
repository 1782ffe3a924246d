"""A descriptor as a sum of contributions of the regions of its photo.

Location i holds the share xᵢᵖ / Σ xᵖ of GeM's value of a channel; other poolings split likewise.
Where the last stage is an attention block, a location has gathered part of that from others, to
which it is handed back (`SecondOrderAttention.trace`). All that follows is linear once the norms
are known: whitening, the mean of the scales, whitening learnt afterwards. So every location of
every scale adds a vector to the descriptor.

The shift of a whitening layer, minus the mean of all photos, has no place in the photo: every
location takes the share of it that it has in the vector before, wᵢ = uᵢ·f / |f|², where f = Σ uᵢ.
Both stay exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.arrays import Doubles, Floats
from solar.errors import SolarError
from solar.images import Box, Source, check_visible, load
from solar.images.boxes import pixel_box
from solar.images.decode import Mode
from solar.models.inference import inference
from solar.models.retrieval_net import RetrievalNet
from solar.nn import Backbone, SecondOrderAttention
from solar.nn.soa import AttentionFactors


@dataclass(frozen=True, eq=False)
class LocatedDescriptor:
    """The contribution of every region of a photo to its descriptor."""

    vectors: Floats  # (h, w, dim), whose sum is the descriptor
    shift: Floats  # (dim,) how much of that sum is the whitening's shift, which the regions share
    rows: Doubles  # (h + 1,) borders of regions from top to bottom, in pixels of the photo
    columns: Doubles  # (w + 1,) the same from left to right
    size: tuple[int, int]  # width and height of the upright photo

    @property
    def descriptor(self) -> Floats:
        """(dim,) of unit norm, as `RetrievalNet.describe` gives it."""
        total: Floats = self.vectors.sum(axis=(0, 1), dtype=np.float64).astype(np.float32)
        return total

    @property
    def nbytes(self) -> int:
        """Memory in bytes; it grows with the area of the photo."""
        return self.vectors.nbytes


def locate(
    net: RetrievalNet,
    photo: Source,
    *,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    box: Box | None = None,
    mode: Mode = "exact",
    attention: bool = True,
) -> LocatedDescriptor:
    """Describe a photo as a sum over its regions.

    Regions are the locations of the largest scale; those of the others are spread over them by
    area. `attention=False` skips the attention blocks, to see what they change; the other options
    are those of `RetrievalNet.describe` and `solar.images.load`.

    Raises:
        SolarError: As for `describe`; or the pooling is not a sum over locations.
    """
    check_splits(net)
    scales = net.config.scales if scales is None else scales
    image = load(photo, size or net.config.size, box=box, mode=mode)
    height, width = image.pixels.shape[:2]
    check_visible(width, height, photo, scales=scales, least=net.backbone.least_side)
    whole = 0, 0, image.width, image.height
    left, top, right, bottom = whole if box is None else pixel_box(box, *whole[2:])
    sums, grids = [], []
    with inference(net):
        batch = net.normalise(torch.from_numpy(image.pixels)[None].to(net.device))
        for scale in scales:
            scaled = net.rescale(batch, scale)
            parts = _pooled(net, scaled, attention=attention)
            sums.append(_described(net, parts))
            (high, wide), (h, w) = scaled.shape[2:], parts.shape[:2]
            rows = _edges(net.backbone, h, high, (top, bottom))
            grids.append((rows, _edges(net.backbone, w, wide, (left, right))))
        sums = _averaged(net, sums)
        rows, columns = max(grids, key=lambda grid: len(grid[0]) * len(grid[1]))
        spread = [
            torch.einsum(
                "rh,hwc,sw->rsc",
                _shares(down, rows).to(net.device),
                one.parts,
                _shares(across, columns).to(net.device),
            )
            for one, (down, across) in zip(sums, grids, strict=True)
        ]
        vectors = torch.stack(spread).sum(dim=0).cpu().numpy()
        shift = torch.stack([one.shift for one in sums]).sum(dim=0).cpu().numpy()
    return LocatedDescriptor(vectors, shift, rows, columns, (image.width, image.height))


def check_splits(net: RetrievalNet) -> None:
    """Raise a SolarError if a network's pooling is not a sum over locations."""
    if not hasattr(net.pool, "split"):
        pooling = f"{net.config.pooling} by regions" if net.config.regional else net.config.pooling
        raise SolarError(
            f"This network pools by {pooling}, but the share of a region is only known exactly for "
            "gem, gemmp, spoc and mac: choose another network, such as solar-lite0."
        )


@dataclass(frozen=True, eq=False)
class _Sum:
    """A vector on its way through the network, as a sum over locations."""

    parts: Tensor  # (h, w, c)
    shift: Tensor  # (c,), how much of the sum is the shift of whitening

    @property
    def total(self) -> Tensor:
        return self.parts.sum(dim=(0, 1))

    def times(self, factor: Tensor | float) -> "_Sum":
        return _Sum(self.parts * factor, self.shift * factor)

    def through(self, layer: nn.Module, whole: Tensor) -> "_Sum":
        """Whitened by a layer that takes `whole` (c,), of which this may be one scale's share."""
        assert isinstance(layer, nn.Linear)
        shares = self.parts @ whole / (whole @ whole)
        parts = F.linear(self.parts, layer.weight) + shares[..., None] * layer.bias
        return _Sum(parts, F.linear(self.shift, layer.weight, shares.sum() * layer.bias))


def _pooled(net: RetrievalNet, images: Tensor, *, attention: bool) -> Tensor:
    """What each location of one scale (1, 3, ·, ·) adds to the pooled vector, (h, w, c)."""
    pool: Any = net.pool
    last: tuple[SecondOrderAttention, Tensor, tuple[Tensor, AttentionFactors]] | None = None

    def attend(_: int, block: SecondOrderAttention, x: Tensor) -> Tensor:
        nonlocal last
        if not attention:
            return x
        last = block, x, block.forward_with_factors(x)
        return last[2][0]

    features = net.backbone.run(images, attend)
    parts: Tensor = pool.split(net.before_pooling(features))
    if last is not None and last[2][0] is features and net.local_whiten is None:
        block, before, ran = last
        parts = block.trace(before, ran, parts)
    return parts[0].movedim(0, -1)


def _described(net: RetrievalNet, parts: Tensor) -> _Sum:
    pooled = _Sum(parts, torch.zeros_like(parts[0, 0]))
    if net.whiten is None or net.config.normalise_pooled:
        [pooled] = _normalised([pooled])
    if net.whiten is None:
        return pooled
    [whitened] = _normalised([pooled.through(net.whiten, pooled.total)])
    return whitened


def _averaged(net: RetrievalNet, scales: Sequence[_Sum]) -> list[_Sum]:
    power = net.scale_power(len(scales))
    totals = torch.stack([one.total for one in scales])
    weights = torch.full_like(totals, 1 / len(scales))
    if isinstance(power, Tensor) or power != 1:  # a power mean splits like GeM over locations
        powers = totals.pow(power)
        weights = powers.mean(dim=0).pow(1 / power) * powers / powers.sum(dim=0) / totals
    sums = [one.times(weight) for one, weight in zip(scales, weights, strict=True)]
    sums = _normalised(sums, eps=0)
    name = "multi" if len(scales) > 1 else "single"
    if name in net.post:
        sums = _normalised(_through(net.post[name], sums))
    return sums if net.adapt is None else _normalised(_through(net.adapt, sums), eps=0)


def _through(layer: nn.Module, sums: Sequence[_Sum]) -> list[_Sum]:
    whole = torch.stack([one.total for one in sums]).sum(dim=0)
    return [one.through(layer, whole) for one in sums]


def _normalised(sums: Sequence[_Sum], eps: float = 1e-6) -> list[_Sum]:
    length = torch.stack([one.total for one in sums]).sum(dim=0).norm()
    return [one.times(1 / (length + eps)) for one in sums]


def _edges(backbone: Backbone, count: int, pixels: int, ends: tuple[int, int]) -> Doubles:
    """Borders of a map's locations in the photo, of a crop of `pixels` that lies between `ends`."""
    begin, end = ends
    middles = (backbone.first + backbone.stride * np.arange(count)) * ((end - begin) / pixels)
    return np.concatenate([[begin], begin + (middles[1:] + middles[:-1]) / 2, [end]])


def _shares(locations: Doubles, regions: Doubles) -> Tensor:
    """Which share of each location lies in each region: (regions, locations), columns of sum 1."""
    low = np.maximum(locations[:-1], regions[:-1, None])
    high = np.minimum(locations[1:], regions[1:, None])
    return torch.from_numpy((high - low).clip(min=0) / np.diff(locations)).float()
