"""Where locations of a photo look, as arrays and as pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from solar.errors import SolarError
from solar.images import Source, read_image
from solar.show.attention_source import (
    AttentionSource,
    Location,
    Maps,
    check_layer,
    check_locations,
    check_model,
)

if TYPE_CHECKING:
    from solar.models import Model


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Where some locations of a photo look. A notebook shows it as a picture.

    Attributes:
        photo: Upright.
        at: The locations, in its pixels.
        layer: After which layer.
        maps: (n, h, w) over the cells of the layer, each map with the sum one.
        extent: How many cells the photo is wide and high; the last may be cut.
    """

    photo: Image.Image
    at: tuple[Location, ...]
    layer: int
    maps: Maps
    extent: tuple[float, float]

    def __len__(self) -> int:
        return len(self.maps)

    def enlarged(self, size: tuple[int, int] | None = None) -> Maps:
        """The maps at the size of the photo, or at another (width, height), bilinearly.

        Returns:
            (n, height, width).
        """
        box = (0.0, 0.0, *self.extent)
        enlarged = [
            np.asarray(
                Image.fromarray(one).resize(
                    size or self.photo.size, Image.Resampling.BILINEAR, box=box
                )
            )
            for one in self.maps
        ]
        return np.stack(enlarged)

    def overlay(
        self, number: int = 0, *, opacity: float = 0.65, colours: str = "ember", star: bool = True
    ) -> Image.Image:
        """The map of one location over the photo, the location marked with a star.

        Args:
            number: Which of the locations.
            opacity: Of the map, 0 to 1.
            colours: One of `solar.show.colours.COLOURS`.
            star: Mark the location.
        """
        from solar.show.attention_figure import draw_overlay

        return draw_overlay(self, number, opacity=opacity, colours=colours, star=star)

    def figure(
        self, *, opacity: float = 0.65, colours: str = "ember", cell: int = 320
    ) -> Image.Image:
        """The photo with every location, and beside it the map of each; as in the paper's Fig. 3.

        Args:
            opacity: Of the maps, 0 to 1.
            colours: One of `solar.show.colours.COLOURS`.
            cell: Width of each in pixels.
        """
        from solar.show.attention_figure import draw_figure

        return draw_figure([[self]], opacity=opacity, colours=colours, cell=cell)

    def _repr_png_(self) -> bytes:
        encoded = io.BytesIO()
        self.figure().save(encoded, "PNG")
        return encoded.getvalue()


def attention(
    model: Model,
    image: Source,
    at: Location | Sequence[Location],
    layer: int | None = None,
    *,
    size: int = 1024,
    drawn: bool = True,
    orient: bool = True,
) -> AttentionMaps:
    """See where locations of a photo look.

    Example:
        >>> maps = attention(model, "a.jpg", at=(320, 200), layer=5)  # doctest: +SKIP
        >>> maps.overlay().save("looks.png")  # doctest: +SKIP

    Args:
        model: A retrieval network with attention; or a patch network, and a patch for a photo.
        image: A path, encoded bytes, a PIL image or an array.
        at: One location or several, (x, y) in pixels of the upright photo.
        layer: 3, 4 or 5 (to 6 in a patch network); the last that has attention if not given.
        size: The shorter side is brought to this, as published.
        drawn: The flatter attention of the paper's pictures; off, that of descriptors.
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
    source = AttentionSource.of(model, photo, size=size, drawn=drawn, orient=False)
    return see(source, photo, locations, layer)


def see(
    source: AttentionSource, photo: Image.Image, at: Sequence[Location], layer: int | None = None
) -> AttentionMaps:
    """The maps of some locations of a photo that a network has run over already."""
    number = max(source.layers) if layer is None else layer
    return AttentionMaps(photo, tuple(at), number, source.rows(at, layer), source.extent(layer))


def see_layers(
    source: AttentionSource, photo: Image.Image, at: Sequence[Location], layer: int | None = None
) -> list[AttentionMaps]:
    """The same for every layer that has attention, or for one."""
    numbers = source.layers if layer is None else [layer]
    return [see(source, photo, at, number) for number in numbers]


def _locations(at: Location | Sequence[Location]) -> list[Location]:
    try:
        found = np.atleast_2d(np.asarray(at, np.float64))
    except ValueError:
        found = np.empty(0)
    if found.ndim != 2 or found.shape[1] != 2 or not len(found):
        raise SolarError(f"A location is (x, y) in pixels of the photo, not {at!r}.")
    return [(float(x), float(y)) for x, y in found]
