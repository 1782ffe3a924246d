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
