"""Flat pictures in metres, lit by the hour, and how a camera sees them.

The world is left-handed: x to the right, y up, z into the picture, the front in the plane z = 0.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from PIL import Image, ImageDraw

from solar.arrays import Doubles

Colour: TypeAlias = tuple[int, int, int]
Points: TypeAlias = Sequence[tuple[float, float]]
Vector: TypeAlias = tuple[float, float, float] | Doubles
Part: TypeAlias = tuple[str, float, Points]
"""A polygon one unit wide and high on (0, 0): its colour's name, how bright, its corners."""


class Light(NamedTuple):
    """Colours at an hour of the day."""

    zenith: Colour  # the sky overhead
    horizon: Colour  # the sky low down, which is also the colour of haze
    tint: tuple[float, float, float]  # what every colour is multiplied by
    shadow: float  # how dark cast shadows are: 0 none, 1 black
    lit: float  # how many windows have their lamps on

    def on(self, colour: Colour, tone: float = 1) -> Colour:
        """The colour as it looks in this light, `tone` times as bright."""
        red, green, blue = (
            min(255, int(c * t * tone)) for c, t in zip(colour, self.tint, strict=True)
        )
        return red, green, blue


class Camera(NamedTuple):
    """A pinhole: `matrix` (3, 3) takes a direction to homogeneous coordinates of the picture."""

    place: Doubles
    matrix: Doubles
    focal: float

    def see(self, point: Vector) -> Doubles:
        """Homogeneous coordinates of a point; the last is its distance ahead in metres."""
        seen: Doubles = self.matrix @ (np.asarray(point) - self.place)
        return seen


def box(x0: float, y0: float, x1: float, y1: float) -> Points:
    """Corners of an upright rectangle."""
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def disc(x: float, y: float, rx: float, ry: float = 0, turn: float = 360, n: int = 24) -> Points:
    """Points of a circle or ellipse, of its first `turn` degrees from the right upwards."""
    angles = [math.radians(turn * i / n) for i in range(n + 1)]
    return [(x + rx * math.cos(a), y + (ry or rx) * math.sin(a)) for a in angles]


class Sheet:
    """Draws in metres on a transparent sheet, y pointing up from its lower edge."""

    def __init__(
        self, left: float, width: float, height: float, scale: float, light: Light, haze: float = 0
    ):
        self.left, self.top, self.scale, self.light, self.haze = left, height, scale, light, haze
        # Polygons have hard edges, so they are drawn twice as large and averaged.
        size = (max(2, math.ceil(width * scale) * 2), max(2, math.ceil(height * scale) * 2))
        self._large = Image.new("RGBA", size)
        self._draw = ImageDraw.Draw(self._large)

    def shape(self, points: Points, colour: Colour, tone: float = 1) -> None:
        """A filled polygon."""
        pairs = zip(self.light.on(colour, tone), self.light.horizon, strict=True)
        fill = tuple(int(c + (far - c) * self.haze) for c, far in pairs)
        k = 2 * self.scale
        self._draw.polygon([((x - self.left) * k, (self.top - y) * k) for x, y in points], fill)

    def parts(
        self, parts: Sequence[Part], colours: Mapping[str, Colour],
        x: float, y: float, width: float, height: float,
    ) -> None:  # fmt: skip
        """Draw parts `width` by `height`, standing on (x, y)."""
        for name, tone, points in parts:
            placed = [(x + px * width, y + py * height) for px, py in points]
            self.shape(placed, colours[name], tone)

    def picture(self) -> Image.Image:
        """The RGBA picture, with `scale` pixels per metre."""
        return self._large.reduce(2)


def paste(
    photo: Image.Image, flat: Image.Image, scale: float, cam: Camera, corner: Vector,
    across: Vector, down: Vector = (0.0, -1.0, 0.0),
) -> None:  # fmt: skip
    """Put a flat picture of `scale` pixels per metre into a photo, as a camera sees it.

    The upper left corner is at `corner`; `across` and `down` are unit vectors along its edges.
    Nothing is drawn of what comes closer to the camera than a metre.
    """
    # Flat to photo pixels, in homogeneous coordinates.
    columns = cam.matrix @ across / scale, cam.matrix @ down / scale, cam.see(corner)
    way = np.stack(columns, axis=1)
    u, v, depth = way @ [(0, flat.width, 0, flat.width), (0, 0, flat.height, flat.height), [1] * 4]
    if depth.min() < 1:
        return
    left, top = (max(0, math.floor((p / depth).min())) for p in (u, v))
    right = min(photo.width, math.ceil((u / depth).max()))
    bottom = min(photo.height, math.ceil((v / depth).max()))
    if right > left and bottom > top:
        back = np.linalg.inv([(1, 0, -left), (0, 1, -top), (0, 0, 1)] @ way)  # what Pillow wants
        patch = flat.transform(
            (right - left, bottom - top), Image.Transform.PERSPECTIVE,
            (back / back[2, 2]).ravel()[:8].tolist(), Image.Resampling.BICUBIC,
        )  # fmt: skip
        photo.paste(patch, (left, top), patch)
