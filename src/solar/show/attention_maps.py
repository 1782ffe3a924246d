"""Attention maps of locations of a photo, and pictures of them, such as the paper's figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from solar.arrays import Floats
from solar.defaults import SIZE
from solar.errors import SolarError
from solar.images import Box, Source, crop, read_image
from solar.show.attention_source import (
    AttentionSource,
    Location,
    check_layer,
    check_locations,
    check_model,
)
from solar.show.colours import INK, PAPER, SOFT, Colour, colour, wide, write

if TYPE_CHECKING:
    from solar.models import Model

SIDE = 32
"""Width and height of a patch in pixels."""

FOUR: tuple[Location, ...] = ((10, 10), (22, 10), (10, 22), (22, 22))
"""Locations in a patch whose attention is drawn by default."""

# Distinct from each other and from the colours of a map; letters help where colours do not.
STARS: tuple[Colour, ...] = ((255, 70, 165), (40, 190, 255), (90, 215, 90), (160, 125, 255))

_FINE = 4  # stars are drawn larger and reduced, which smooths them


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Attention maps of locations of a photo. A notebook shows them as a picture."""

    photo: Image.Image  # upright
    at: tuple[Location, ...]  # in pixels of the photo
    layer: int
    maps: Floats  # (n, h, w) over the cells of the layer; each map sums to one
    extent: tuple[float, float]  # width and height of the photo in cells; the last may be cut

    def __len__(self) -> int:
        return len(self.maps)

    def enlarged(self, size: tuple[int, int] | None = None) -> Floats:
        """The maps at the photo's (width, height) or another, bilinearly: (n, height, width)."""
        return np.stack([self._enlarge(one, size or self.photo.size) for one in self.maps])

    def _enlarge(self, one: Floats, size: tuple[int, int]) -> Floats:
        box = (0.0, 0.0, *self.extent)
        resized = Image.fromarray(one).resize(size, Image.Resampling.BILINEAR, box=box)
        return np.asarray(resized)

    def overlay(
        self,
        number: int = 0,
        *,
        opacity: float = 0.65,
        colours: str = "ember",
        star: bool = True,
        size: tuple[int, int] | None = None,
    ) -> Image.Image:
        """The map of location `number` over the photo, by default of its size, with a star.

        The opacity is 0 to 1, and the colours are some of `solar.show.colours.COLOURS`.
        """
        photo = _sized(self.photo, size or self.photo.size)
        coloured = colour(self._enlarge(self.maps[number], photo.size), colours)
        picture = Image.blend(photo, Image.fromarray(coloured), opacity)
        if star:
            place = _scaled(self.at[number], self.photo.size, photo.size)
            draw_star(picture, place, STARS[number % len(STARS)])
        return picture

    def figure(
        self, *, opacity: float = 0.65, colours: str = "ember", cell: int = 320
    ) -> Image.Image:
        """The photo with its locations, and the map of each: `draw_figure` of this photo alone."""
        return draw_figure([[self]], opacity=opacity, colours=colours, cell=cell)

    def _repr_png_(self) -> bytes | None:
        return self.figure()._repr_png_()


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
        layer: 3, 4 or 5 (to 6 in a patch network). Default: the last that has attention.
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
    """The maps of locations of a photo, from one run of the network."""
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

    Locations are `at` pixels of every photo, by default those of `AttentionSource.notable`; all
    layers that have attention are drawn by default. Options are those of `attention`; `style` is
    for `draw_figure`.
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


def read_patch(source: Source, *, number: int = 0, box: Box | None = None) -> Image.Image:
    """Read a square patch, one of a strip (from 0) or a box of a photo, grey and 32 × 32."""
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
    """Draw attention maps of patches from `read_patch`, two side by side; see `draw_photos`."""
    check_locations(at, (SIDE, SIDE))
    return draw_photos(model, patches, at, cell=cell, across=2, **options)


def draw_figure(
    blocks: Sequence[Sequence[AttentionMaps]],
    *,
    opacity: float = 0.65,
    colours: str = "ember",
    cell: int = 320,
    across: int = 1,
) -> Image.Image:
    """Draw photos with their locations marked, and beside each the maps, as in the paper's Fig. 3.

    `blocks` are the maps of each photo, one per layer, of the same locations. Maps are `cell`
    pixels wide, and `across` photos side by side.
    """
    gap = max(4, cell // 20)
    pictures = [_block(layers, opacity, colours, cell) for layers in blocks]
    lines = [pictures[first : first + across] for first in range(0, len(pictures), across)]
    width = max(sum(block.width + 3 * gap for block in line) for line in lines) - 3 * gap
    height = sum(max(block.height for block in line) + 2 * gap for line in lines) - 2 * gap
    figure = Image.new("RGB", (width + 2 * gap, height + 2 * gap), PAPER)
    y = gap
    for line in lines:
        x = gap
        for block in line:
            figure.paste(block, (x, y))
            x += block.width + 3 * gap
        y += max(block.height for block in line) + 2 * gap
    return figure


def draw_star(
    picture: Image.Image, at: Location, fill: Colour, letter: str = "", radius: float | None = None
) -> None:
    """Draw a star that is visible on any ground, and a letter beside it."""
    radius = radius or max(5.0, max(picture.size) / 40)
    side = round(2 * radius) + 1
    for edge, paint in ((1.0, INK), (0.88, PAPER), (0.7, fill)):
        mask = Image.new("L", (side * _FINE, side * _FINE))
        middle = mask.width / 2
        ImageDraw.Draw(mask).polygon(_star(middle, middle * edge, sharp=0.38 + 0.12 * edge), 255)
        small = mask.resize((side, side), Image.Resampling.BOX)
        corner = round(at[0] - side / 2), round(at[1] - side / 2)
        picture.paste(paint, corner, small)
    if letter:
        text = max(10, round(1.3 * radius))
        x = at[0] + radius
        if x + wide(letter, text) > picture.width:
            x = at[0] - radius - wide(letter, text)
        y = min(max(at[1] - 0.7 * text, 0), picture.height - 1.3 * text)
        write(picture, (round(x), round(y)), letter, text, PAPER, edge=1)


def _block(layers: Sequence[AttentionMaps], opacity: float, colours: str, cell: int) -> Image.Image:
    photo, at = layers[0].photo, layers[0].at
    size = cell, max(1, round(cell * photo.height / photo.width))
    gap, text = max(3, cell // 40), max(11, cell // 18)
    line = text * 3 // 2
    across, down = cell + gap, size[1] + line
    high = down * len(layers) - line
    marked = _sized(photo, (max(1, round(high * photo.width / photo.height)), high))
    stars = [(STARS[i % len(STARS)], chr(ord("a") + i % 26)) for i in range(len(at))]
    for one, (fill, letter) in zip(at, stars, strict=True):
        draw_star(marked, _scaled(one, photo.size, marked.size), fill, letter, max(9, high / 34))
    block = Image.new("RGB", (marked.width + across * len(at), line + high), PAPER)
    block.paste(marked, (0, line))
    for row, maps in enumerate(layers):
        for number, (fill, letter) in enumerate(stars):
            shown = maps.overlay(number, opacity=opacity, colours=colours, star=False, size=size)
            draw_star(shown, _scaled(at[number], photo.size, size), fill, radius=cell / 26)
            edges = (0, 0, size[0] - 1, size[1] - 1)
            ImageDraw.Draw(shown).rectangle(edges, outline=fill, width=max(2, cell // 80))
            x, y = marked.width + gap + number * across, row * down
            block.paste(shown, (x, y + line))
            write(block, (x, y + text // 6), f"{letter}  layer {maps.layer}", text, SOFT)
    return block


def _star(middle: float, radius: float, sharp: float) -> list[tuple[float, float]]:
    corners = [(radius * (sharp if i % 2 else 1.0), pi * i / 5) for i in range(10)]
    return [(middle + reach * sin(angle), middle - reach * cos(angle)) for reach, angle in corners]


def _scaled(at: Location, old: tuple[int, int], new: tuple[int, int]) -> Location:
    return at[0] * new[0] / old[0], at[1] * new[1] / old[1]


def _sized(photo: Image.Image, size: tuple[int, int]) -> Image.Image:
    """A copy of a photo at a size; a patch keeps its pixels visible."""
    coarse = size[0] >= 3 * photo.width
    method = Image.Resampling.NEAREST if coarse else Image.Resampling.LANCZOS
    return photo.resize(size, method)
