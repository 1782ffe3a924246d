"""Rows of a network's second-order attention over a photo, for any location.

A map over n locations has n² numbers, 67 million at conv4 of a photo of 1024 × 2048 pixels. Its
queries and keys are far smaller, and give the row of any location in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import Floats
from solar.defaults import SIZE
from solar.errors import SolarError
from solar.images import Source, read_image

if TYPE_CHECKING:
    from torch import Tensor

    from solar.models import Model
    from solar.nn import Backbone, SecondOrderAttention

Location: TypeAlias = tuple[float, float]
"""x and y in pixels of the upright photo."""


_LONGEST = 4  # times `size`: a longer panorama is reduced more
_PATCH = 32
_SAMPLE = 512


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """The factors of the attention map of one layer."""

    queries: npt.NDArray[np.floating[Any]]  # (h·w, mid), times the scale of the map
    keys: npt.NDArray[np.floating[Any]]  # (h·w, mid)
    shape: tuple[int, int]  # h and w of the feature map
    cell: tuple[float, float]  # width and height of a location in pixels of the photo

    def place(self, at: Location) -> int:
        """The number of the location that a pixel is in, as published: rounded down."""
        h, w = self.shape
        column, row = (int(value / side) for value, side in zip(at, self.cell, strict=True))
        return min(row, h - 1) * w + min(column, w - 1)

    def rows(self, places: Sequence[int]) -> Floats:
        """Rows (m, h, w) of the map; each sums to one."""
        queries = self.queries[list(places)].astype(np.float32, copy=False)
        logits = queries @ self.keys.astype(np.float32, copy=False).T
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        return np.asarray(weights.reshape(-1, *self.shape), np.float32)


@dataclass(frozen=True, eq=False)
class AttentionSource:
    """The attention of one network over one photo.

    Example:
        >>> source = AttentionSource.of(model, "a.jpg")  # doctest: +SKIP
        >>> source.row(320, 200, layer=4).shape  # doctest: +SKIP
        (64, 86)
    """

    width: int  # of the upright photo, like the height
    height: int
    layers: Mapping[int, LayerAttention]  # by number, in order, those that have attention

    @classmethod
    def of(
        cls,
        model: Model,
        image: Source,
        *,
        size: int = SIZE,
        picture_scale: bool = True,
        orient: bool = True,
        half: bool = False,
    ) -> AttentionSource:
        """Run a network over a photo once; a SolarError if it has no attention.

        The options are those of `solar.attention`; `half` keeps float16, which is enough for
        pictures. Small photos are enlarged for finer maps; the longer side of a panorama is at most
        four times the `size`. For a patch network, the photo is a patch, made grey and 32 × 32.
        """
        from solar.models.inference import inference

        check_model(model)
        photo = read_image(image, orient=orient)
        batch, backbone = _prepare(model, photo, size)
        layers: dict[int, LayerAttention] = {}

        def keep(layer: int, block: SecondOrderAttention, x: Tensor) -> Tensor:
            h, w = x.shape[2:]
            x, factors = block.forward_with_factors(x, picture_scale=picture_scale)
            stride = backbone.attention_strides[layer]
            cell = stride * photo.width / batch.shape[3], stride * photo.height / batch.shape[2]
            queries, keys = (_array(values[0], half) for values in factors)
            layers[layer] = LayerAttention(queries, keys, (h, w), cell)
            return x

        with inference(model):
            backbone.run(batch, keep)
        return cls(photo.width, photo.height, layers)

    @property
    def nbytes(self) -> int:
        """Memory that it holds; it grows with the square of `size`."""
        return sum(one.queries.nbytes + one.keys.nbytes for one in self.layers.values())

    def layer(self, number: int | None = None) -> LayerAttention:
        """A layer by its number, or the last; a SolarError if it has no attention."""
        number = max(self.layers) if number is None else number
        check_layer(self.layers, number)
        return self.layers[number]

    def rows(self, at: Sequence[Location], layer: int | None = None) -> Floats:
        """Attention maps of locations, (n, h, w), by default of the last layer; each sums to 1."""
        attention = self.layer(layer)
        check_locations(at, (self.width, self.height))
        return attention.rows([attention.place(one) for one in at])

    def row(self, x: float, y: float, layer: int | None = None) -> Floats:
        """The attention map (h, w) of one location; see `rows`."""
        row: Floats = self.rows([(x, y)], layer)[0]
        return row

    def extent(self, layer: int | None = None) -> tuple[float, float]:
        """How many cells of a layer's map the photo is wide and high; the last may be cut."""
        wide, high = self.layer(layer).cell
        return self.width / wide, self.height / high

    def notable(self) -> tuple[Location, ...]:
        """Four locations for a picture like the paper's.

        Where the network attends most (the dominant landmark), most elsewhere (a secondary one),
        least in the upper half (the sky) and least in the lower half (other background).
        """
        attention = self.layer()
        h, w = attention.shape
        sample = np.unique(np.linspace(0, h * w - 1, min(h * w, _SAMPLE)).round().astype(int))
        received = attention.rows(sample.tolist()).mean(axis=0)
        ys, xs = np.mgrid[:h, :w]
        # Padding makes the outermost cells peculiar.
        inside = (ys > 0) & (ys < h - 1) & (xs > 0) & (xs < w - 1) if min(h, w) > 4 else ys >= 0
        upper = ys < h / 2
        picked: list[tuple[int, int]] = []
        most, sky, ground = (received, inside), inside & upper, inside & ~upper
        for score, part in (most, most, (-received, sky), (-received, ground)):
            far = np.ones((h, w), bool)
            for row, column in picked:
                far &= np.hypot(ys - row, xs - column) > 0.22 * max(h, w)
            allowed = next((m for m in (part & far, part, inside) if m.any()), ys >= 0)
            best = int(np.where(allowed, score, -np.inf).argmax())
            picked.append(divmod(best, w))
        wide, high = attention.cell
        right, bottom = self.width - 1.0, self.height - 1.0
        return tuple(
            (min((column + 0.5) * wide, right), min((row + 0.5) * high, bottom))
            for row, column in picked
        )


def check_locations(at: Sequence[Location], size: tuple[int, int]) -> None:
    """Raise a SolarError that names the first location outside a photo of (width, height)."""
    width, height = size
    for x, y in at:
        if not (isfinite(x) and isfinite(y) and 0 <= x < width and 0 <= y < height):
            raise SolarError(
                f"The location {x:g},{y:g} is not in the photo, which is {width} × {height} "
                f"pixels: x must be below {width}, and y below {height}."
            )


def check_layer(layers: Mapping[int, object], number: int) -> None:
    """Raise a SolarError if a layer is not among those with attention."""
    if number not in layers:
        known = " and ".join(map(str, sorted(layers)))
        raise SolarError(f"The network has attention after layer {known}, not {number}.")


def check_model(model: Model) -> None:
    """Raise a SolarError if a network has no attention."""
    if not model.config.attention:
        name = model.source or "This network"
        raise SolarError(
            f"{name} has no attention to draw: choose a network that has, such as solar-lite0."
        )


def _prepare(model: Model, photo: Image.Image, size: int) -> tuple[Tensor, Backbone]:
    import torch

    from solar.models import PatchNet

    if isinstance(model, PatchNet):
        grey = photo.convert("L").resize((_PATCH, _PATCH), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(grey, np.float32))
        return pixels[None, None].to(model.device), model.trunk
    target = _input_size(*photo.size, size, model.grid)
    resized = photo.resize(target, Image.Resampling.LANCZOS)
    pixels = torch.from_numpy(np.array(resized))[None].to(model.device)
    return model.normalise(pixels), model.backbone


def _input_size(width: int, height: int, size: int, grid: int) -> tuple[int, int]:
    if size < _PATCH:
        raise SolarError(f"Attention needs photos of at least {_PATCH} pixels, not {size}.")
    scale = min(size / min(width, height), _LONGEST * size / max(width, height))
    wide, high = (max(round(side * scale / grid), 1) * grid for side in (width, height))
    return wide, high


def _array(values: Tensor, half: bool) -> npt.NDArray[np.floating[Any]]:
    array = values.cpu().numpy()
    if not half:
        return array
    most = float(np.finfo(np.float16).max)
    return array.clip(-most, most).astype(np.float16)
