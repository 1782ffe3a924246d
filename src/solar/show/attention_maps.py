"""Attention maps of locations of a photo, and the paper's figure of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from solar.defaults import SIZE
from solar.errors import SolarError
from solar.images import Box, Source, crop, read_image
from solar.show.attention_figure import AttentionMaps, draw_figure
from solar.show.attention_source import (
    AttentionSource,
    Location,
    check_layer,
    check_locations,
    check_model,
)

if TYPE_CHECKING:
    from solar.models import Model
if TYPE_CHECKING:
    from solar.models import Model


def attention(
    model: Model,
    image: Source,
    at: Location | Sequence[Location],
    layer: int | None = None,
    *,
    size: int = SIZE,
    picture_scale: bool = True,
    orient: bool = True,
) -> AttentionMaps:
    """The attention maps of locations of a photo.

    Example:
        >>> maps = attention(model, "a.jpg", at=(320, 200), layer=5)  # doctest: +SKIP
        >>> maps.overlay().save("attention.png")  # doctest: +SKIP

    Args:
        model: A retrieval network with attention; or a patch network, with a patch as `image`.
        image: A path, encoded bytes, a PIL image or an array.
        at: One location or several, (x, y) in pixels of the upright photo.
        layer: 3, 4 or 5 (to 6 in a patch network); the last that has attention if not given.
        size: The shorter side is resized to this, as published.
        picture_scale: Draw the smoother attention of the paper's figures; if False, that of the
            embeddings.
        orient: Obey the EXIF orientation.

    Raises:
        SolarError: The photo cannot be read, a location is not in it, or the network or the layer
            has no attention.
    """
    check_model(model)
    if layer is not None:
        check_layer(model.config.attention, layer)
    locations = _locations(at)
    photo = read_image(image, orient=orient)
    check_locations(locations, photo.size)
    source = AttentionSource.of(model, photo, size=size, picture_scale=picture_scale, orient=False)
    return see(source, photo, locations, layer)


def see(
    source: AttentionSource, photo: Image.Image, at: Sequence[Location], layer: int | None = None
) -> AttentionMaps:
    """The maps of some locations of a photo that a network has run over already."""
    number = max(source.layers) if layer is None else layer
    return AttentionMaps(photo, tuple(at), number, source.rows(at, layer), source.extent(layer))


def draw_photos(
    model: Model,
    images: Sequence[Source],
    at: Sequence[Location] | None = None,
    *,
    layer: int | None = None,
    size: int = SIZE,
    picture_scale: bool = True,
    **style: Any,
) -> Image.Image:
    """Draw the paper's figure: photos, four locations in each, and their attention maps.

    Args:
        model: A network with attention.
        images: Photos, one below the other.
        at: Locations in pixels of every photo; if not given, `AttentionSource.notable` finds four.
        layer: Only this one; all that have attention if not given.
        size: The shorter side is resized to this, as published.
        picture_scale: Draw the smoother attention of the paper's figures; if False, that of the
            embeddings.
        **style: For `draw_figure`.
    """
    blocks = []
    for image in images:
        photo = read_image(image)
        source = AttentionSource.of(
            model, photo, size=size, picture_scale=picture_scale, orient=False
        )
        places = at or source.notable()
        layers = source.layers if layer is None else [layer]
        blocks.append([see(source, photo, places, number) for number in layers])
    return draw_figure(blocks, **style)


def _locations(at: Location | Sequence[Location]) -> list[Location]:
    try:
        found = np.atleast_2d(np.asarray(at, np.float64))
    except ValueError:
        found = np.empty(0)
    if found.ndim != 2 or found.shape[1] != 2 or not len(found):
        raise SolarError(f"A location is (x, y) in pixels of the photo, not {at!r}.")
    return [(float(x), float(y)) for x, y in found]


SIDE = 32
FOUR: tuple[Location, ...] = ((10, 10), (22, 10), (10, 22), (22, 22))
"""Locations whose attention is drawn by default."""


def read_patch(source: Source, *, number: int = 0, box: Box | None = None) -> Image.Image:
    """Read one grey patch and bring it to 32 × 32; a SolarError if there is no such patch.

    The source is a square patch, a strip of patches one below the other (as HPatches has them), of
    which `number` counts from 0, or a photo with a box: x1, y1, x2, y2 in pixels.
    """
    picture = read_image(source)
    name = "The picture" if isinstance(source, bytes | Image.Image) else str(source)
    if box is not None:
        picture = crop(picture, box)
    else:
        side, (count, rest) = picture.width, divmod(picture.height, picture.width)
        if rest:
            raise SolarError(
                f"{name} is {picture.width} × {picture.height} pixels, neither a square patch nor "
                "a strip of them: give the patch as a box."
            )
        if not 0 <= number < count:
            raise SolarError(f"{name} has no patch {number}: it has {count}, numbered from 0.")
        picture = picture.crop((0, number * side, side, (number + 1) * side))
    return picture.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR).convert("RGB")


def draw_patches(
    model: Model,
    patches: Sequence[Image.Image],
    at: Sequence[Location] = FOUR,
    *,
    cell: int = 130,
    **options: Any,
) -> Image.Image:
    """Draw attention maps of locations of patches, one line per layer; two patches side by side.

    Patches are 32 × 32 each, from `read_patch`: in the paper a patch and its correspondence.
    Further options are those of `draw_photos`.
    """
    check_locations(at, (SIDE, SIDE))
    return draw_photos(model, patches, at, cell=cell, across=2, **options)
