"""Attention on patches: the figure of the paper's supplement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from PIL import Image

from solar.errors import SolarError
from solar.images import Box, Source, crop, read_image
from solar.show.attention_maps import draw_photos
from solar.show.attention_source import Location, check_locations

if TYPE_CHECKING:
    from solar.models import Model

SIDE = 32
FOUR: tuple[Location, ...] = ((10, 10), (22, 10), (10, 22), (22, 22))
"""Locations whose attention is drawn where nobody chooses any."""


def read_patch(source: Source, *, number: int = 0, box: Box | None = None) -> Image.Image:
    """Read one grey patch and bring it to 32 × 32.

    Args:
        source: A square patch, a strip of patches one below the other (as HPatches has them), or a
            photo with a box.
        number: Which patch of a strip, from 0.
        box: Where the patch is in a photo: x1, y1, x2, y2 in pixels.

    Raises:
        SolarError: The file cannot be read, is no strip, or has no such patch or box.
    """
    picture = read_image(source)
    if box is not None:
        picture = crop(picture, box)
    else:
        side, rest = picture.width, picture.height % picture.width
        if rest:
            raise SolarError(
                f"{_name(source)} is {picture.width} × {picture.height} pixels, no square patch or "
                "strip of them: say with a box where the patch is."
            )
        count = picture.height // side
        if not 0 <= number < count:
            raise SolarError(f"{_name(source)} has no patch {number}: it holds {count}, from 0.")
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
    """Draw attention maps of locations of patches, a line a layer; two patches side by side.

    Args:
        model: A patch network with attention.
        patches: 32 × 32 each, from `read_patch`: in the paper a patch and its correspondence.
        at: Locations in pixels of the patches.
        cell: Width of a map in pixels.
        **options: Further ones of `solar.show.attention_maps.draw_photos`.

    Raises:
        SolarError: A location is outside 32 × 32, or a layer has no attention.
    """
    check_locations(at, (SIDE, SIDE))
    return draw_photos(model, patches, at, cell=cell, across=2, **options)


def _name(source: Source) -> str:
    return str(source) if not isinstance(source, bytes | Image.Image) else "The picture"
