"""Attention maps of locations of a photo, and the paper's figure of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from solar.defaults import SIZE
from solar.errors import SolarError
from solar.images import Source, read_image
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
