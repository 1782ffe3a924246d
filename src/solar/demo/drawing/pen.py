"""Drawing in metres, flat and frontal."""

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw

from solar.demo.drawing.world import Colour, Light

Points = Sequence[tuple[float, float]]


class Pen:
    """Draws in metres on a transparent sheet, in the light of the hour."""

    def __init__(self, left: float, width: float, height: float, scale: float, light: Light):
        self.left, self.top, self.scale, self.light = left, height, scale, light
        size = (max(2, math.ceil(width * scale)), max(2, math.ceil(height * scale)))
        self.sheet = Image.new("RGBA", size)
        self.draw = ImageDraw.Draw(self.sheet)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Metres to pixels."""
        return (x - self.left) * self.scale, (self.top - y) * self.scale

    def shape(self, points: Points, colour: Colour, strength: float = 1.0) -> None:
        """A filled polygon."""
        self.draw.polygon([self.at(*p) for p in points], (*self.light.on(colour, strength), 255))

    def box(self, *edges: float, colour: Colour, strength: float = 1.0, lamp: bool = False) -> None:
        """A filled rectangle: left, bottom, right, top. A lamp's colour ignores the hour."""
        left, bottom, right, top = edges
        fill = colour if lamp else self.light.on(colour, strength)
        # Pillow paints the last row and column too, hence one pixel less.
        x0, y0 = self.at(left, top)
        x1, y1 = self.at(right, bottom)
        self.draw.rectangle((x0, y0, max(x0, x1 - 1), max(y0, y1 - 1)), (*fill, 255))

    def disc(
        self, x: float, y: float, r: float, colour: Colour, strength: float = 1.0, tall: float = 1.0
    ) -> None:
        """A filled circle, or an ellipse `tall` times as high as it is wide."""
        x0, y0 = self.at(x - r, y + r * tall)
        x1, y1 = self.at(x + r, y - r * tall)
        self.draw.ellipse((x0, y0, x1, y1), (*self.light.on(colour, strength), 255))

    def line(self, points: Points, width: float, colour: Colour, strength: float = 1.0) -> None:
        """A line `width` metres thick, at least one pixel."""
        fill = (*self.light.on(colour, strength), 255)
        self.draw.line([self.at(*p) for p in points], fill, max(1, round(width * self.scale)))


def arc(x: float, y: float, rx: float, ry: float, start: float, stop: float, n: int = 9) -> Points:
    """Points of an elliptical arc, degrees counted from the right towards the top."""
    angles = [math.radians(start + (stop - start) * i / (n - 1)) for i in range(n)]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


# Outlines of openings one unit wide and high, standing on (0, 0).
OPENINGS: dict[str, Points] = {
    "rectangular": [(-0.5, 0), (0.5, 0), (0.5, 1), (-0.5, 1)],
    "arched": [(-0.5, 0), (0.5, 0), *arc(0, 0.68, 0.5, 0.32, 0, 180)],
    "pointed": [
        (-0.5, 0), (0.5, 0), (0.5, 0.55), (0.42, 0.74), (0.27, 0.89), (0, 1), (-0.27, 0.89),
        (-0.42, 0.74), (-0.5, 0.55),
    ],
    "round": arc(0, 0.5, 0.5, 0.36, 0, 340, 18),
    "hexagonal": [(-0.3, 0.1), (0.3, 0.1), (0.5, 0.5), (0.3, 0.9), (-0.3, 0.9), (-0.5, 0.5)],
}  # fmt: skip


def opening(kind: str, x: float, y: float, w: float, h: float) -> Points:
    """The outline of a window or door of that kind, `w` by `h`, standing on (x, y)."""
    return [(x + px * w, y + py * h) for px, py in OPENINGS[kind]]
