"""The flat, frontal picture of one toy building.

Lengths are metres, y points up from the ground and x = 0 is the middle of the front.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageChops, ImageDraw

from solar.demo.drawing.world import DARK, Building, Colour, Light, Tower

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


_LAMPS: tuple[Colour, ...] = ((255, 214, 130), (255, 232, 170), (250, 190, 105), (255, 224, 190))


def _window(
    pen: Pen, b: Building, x: float, y: float, w: float, h: float, rng: np.random.Generator
) -> None:
    edge = min(0.16, 0.14 * w)
    pen.shape(opening(b.window, x, y - edge, w + 2 * edge, h + 2 * edge), b.trim)
    pen.shape(opening(b.window, x, y, w, h), b.trim, 0.45)
    lit, glow = rng.random() < pen.light.lit, rng.random()
    glass = opening(b.window, x, y, w * 0.92, h * 0.94)
    pixels = [pen.at(*p) for p in glass]
    if lit:
        pen.draw.polygon(pixels, (*_LAMPS[int(glow * len(_LAMPS))], 255))
    else:
        red, green, blue = (int(c * (0.75 + 0.45 * glow)) for c in pen.light.glass)
        pen.draw.polygon(pixels, (red, green, blue, 255))
    for i in range(1, b.panes):
        px = x - w / 2 + w * i / b.panes
        pen.line([(px, y), (px, y + h * 0.94)], 0.07, b.trim, 0.8)
    if b.panes > 1:
        pen.line([(x - w * 0.46, y + h * 0.6), (x + w * 0.46, y + h * 0.6)], 0.07, b.trim, 0.8)
    if b.window != "round":
        pen.box(x - w * 0.62, y - 0.2, x + w * 0.62, y - 0.02, colour=b.trim)
        pen.box(x - w * 0.58, y - 0.3, x + w * 0.58, y - 0.2, colour=b.wall, strength=0.62)
    if b.shutters:
        for side in (-1, 1):
            middle = x + side * w * 0.72
            pen.box(middle - w * 0.18, y, middle + w * 0.18, y + h * 0.9, colour=b.accent)


def _masonry(
    pen: Pen, b: Building, x0: float, x1: float, y1: float, rng: np.random.Generator
) -> None:
    """Bricks, blocks, stripes or beams over a wall that is already painted."""
    width, height = x1 - x0, y1
    if b.texture in ("brick", "stone"):
        tall, long = (0.42, 1.05) if b.texture == "brick" else (0.85, 1.7)
        rows, bricks = int(height / tall), int(width / long)
        for row in range(rows + 1):
            pen.box(x0, row * tall, x1, row * tall + 0.06, colour=b.wall, strength=0.86)
        for place, tone in rng.random((rows * bricks // 2, 2)).tolist():
            row, column = divmod(int(place * rows * bricks), max(1, bricks))
            left = x0 + (column + 0.5 * (row % 2)) * long
            right, bottom = min(left + long, x1), row * tall + 0.06
            pen.box(left, bottom, right, bottom + tall - 0.06, colour=b.wall,
                    strength=0.84 + 0.28 * tone)  # fmt: skip
    elif b.texture == "stripes":
        for row in range(int(height / 0.9)):
            pen.box(x0, row * 0.9, x1, row * 0.9 + 0.42, colour=b.trim, strength=0.9)
    elif b.texture == "timber":
        for i in range(b.floors + 1):
            y = i * b.floor_height
            pen.box(x0, y - 0.14, x1, y + 0.14, colour=DARK)
        beams = max(2, round(width / (b.bay_width / 2)))
        for i in range(beams + 1):
            x = x0 + width * i / beams
            pen.line([(x, b.floor_height), (x, y1)], 0.2, DARK)
            if i < beams and rng.random() < 0.4:
                low = b.floor_height * int(1 + rng.random() * (b.floors - 1))
                pen.line([(x, low), (x + width / beams, low + b.floor_height)], 0.2, DARK)
    elif b.texture == "fins":
        for i in range(b.bays * 2 + 1):
            x = x0 + width * i / (b.bays * 2)
            pen.box(x - 0.09, 0, x + 0.09, y1, colour=b.trim, strength=0.95)


def _storeys(
    pen: Pen, b: Building, x0: float, x1: float, top: float, bays: int, skip: int,
    rng: np.random.Generator, blind: frozenset[tuple[int, int]] = frozenset(),
) -> None:  # fmt: skip
    bay = (x1 - x0) / bays
    w, h = bay * b.window_width, b.floor_height * b.window_height
    for floor in range(skip, int(top / b.floor_height + 0.01)):
        y = floor * b.floor_height + (b.floor_height - h) * 0.5
        for i in range(bays):
            if (floor, i) not in blind:
                _window(pen, b, x0 + (i + 0.5) * bay, y, w, h, rng)


def _ledges(pen: Pen, b: Building, x0: float, x1: float, top: float) -> None:
    heights = [top]
    if b.cornice_every:
        heights += [f * b.floor_height for f in range(b.cornice_every, b.floors, b.cornice_every)]
    for y in heights:
        pen.box(x0, y - 0.62, x1, y - 0.2, colour=b.wall, strength=0.66)
        pen.box(x0 - 0.2, y - 0.25, x1 + 0.2, y + 0.12, colour=b.trim)


def _columns(pen: Pen, b: Building) -> None:
    top = b.wall_height - 0.7 if b.columns == "giant" else b.floor_height * 0.95
    for i in range(b.bays + 1):
        x = -b.width / 2 + i * b.bay_width
        x = min(max(x, -b.width / 2 + 0.4), b.width / 2 - 0.4)
        for left, right, tone in ((-0.36, 0.36, 0.72), (-0.3, 0.14, 1.0), (-0.2, -0.06, 1.14)):
            pen.box(x + left, 0.3, x + right, top, colour=b.trim, strength=tone)
        pen.box(x - 0.52, 0, x + 0.52, 0.4, colour=b.trim, strength=0.9)
        pen.box(x - 0.55, top - 0.3, x + 0.55, top + 0.1, colour=b.trim)


def _entrance(pen: Pen, b: Building, rng: np.random.Generator) -> None:
    if b.ground_floor in ("arcade", "shops"):
        kind = "arched" if b.ground_floor == "arcade" else "rectangular"
        for i in range(b.bays):
            x = -b.width / 2 + (i + 0.5) * b.bay_width
            w, h = b.bay_width * 0.74, b.floor_height * 0.82
            pen.shape(opening(kind, x, 0, w + 0.3, h + 0.2), b.trim)
            pen.shape(opening(kind, x, 0, w, h), DARK, 1.2)
            if b.ground_floor == "shops":
                lamp = rng.random() < 0.25 + pen.light.lit
                glass = _LAMPS[i % 4] if lamp else pen.light.glass
                pen.box(x - w * 0.45, 0.7, x + w * 0.45, h * 0.8, colour=glass, lamp=True)
                low, high, flare, s = h * 0.78, h * 1.02, w * 0.6, w * 0.5
                pen.shape(
                    [(x - flare, low), (x + flare, low), (x + s, high), (x - s, high)], b.accent
                )
    w, h = b.door_width, min(b.floor_height * 0.86, b.door_width * 1.8)
    for grow, colour, tone in ((0.7, b.trim, 1.0), (0.3, b.trim, 0.6), (0.0, b.accent, 0.75)):
        pen.shape(opening(b.door, 0, 0, w + grow, h + grow / 2), colour, tone)
    pen.line([(0, 0), (0, h * 0.8)], 0.08, DARK)
    for step in range(3):
        s = w * 0.8 + 0.35 * (3 - step)
        pen.box(-s, 0.16 * step, s, 0.16 * step + 0.16, colour=b.trim, strength=0.8 + 0.08 * step)


def _clock(pen: Pen, b: Building, x: float, y: float, r: float) -> None:
    for k, colour in ((1.15, b.accent), (1.0, (244, 240, 226)), (0.08, DARK)):
        pen.disc(x, y, r * k, colour)
    for i in range(12):
        a = math.radians(30 * i)
        tip = (math.cos(a), math.sin(a))
        pen.line([(x + r * k * tip[0], y + r * k * tip[1]) for k in (0.78, 0.93)], 0.1, DARK)
    turn = b.grain % 12
    for hand, long in ((turn, 0.5), (turn * 5 % 12, 0.74)):
        a = math.radians(90 - 30 * hand)
        pen.line([(x, y), (x + r * long * math.cos(a), y + r * long * math.sin(a))], 0.13, DARK)


def _rose(pen: Pen, b: Building, x: float, y: float, r: float) -> None:
    petals = 6 + b.grain % 4 * 2
    pen.disc(x, y, r * 1.14, b.trim)
    pen.disc(x, y, r, DARK, 1.1)
    stained: tuple[Colour, ...] = (b.accent, (70, 110, 190), (205, 160, 60))
    for i in range(petals):
        a = 2 * math.pi * i / petals
        colour = stained[i % 3]
        pen.disc(
            x + 0.66 * r * math.cos(a), y + 0.66 * r * math.sin(a), r * 1.7 / petals, colour, 1.2
        )
    pen.disc(x, y, r * 0.28, stained[1], 1.3)
    pen.disc(x, y, r * 0.12, b.trim)


def _banner(pen: Pen, b: Building, x: float) -> None:
    top, low = b.wall_height - 0.9, max(b.floor_height * 1.1, b.wall_height * 0.45)
    pen.shape([(x - 0.55, top), (x + 0.55, top), (x + 0.55, low), (x, low + 0.6), (x - 0.55, low)],
              b.accent, 1.1)  # fmt: skip
    pen.box(x - 0.2, low + 1.0, x + 0.2, top - 0.5, colour=b.trim)


# Roofs for walls and caps for towers: each stands on the line from (x0, y) to (x1, y).


def _flat(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    pen.box(x0, y, x1, y + h, colour=b.wall, strength=0.92)
    posts = max(2, round((x1 - x0) / 0.9))
    for i in range(posts):
        x = x0 + (i + 0.5) * (x1 - x0) / posts
        pen.box(x - 0.16, y + h * 0.2, x + 0.16, y + h * 0.8, colour=b.wall, strength=0.6)
    pen.box(x0 - 0.15, y + h * 0.85, x1 + 0.15, y + h, colour=b.trim)


def _gable(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    middle, over = (x0 + x1) / 2, 0.4
    pen.shape([(x0 - over, y), (x1 + over, y), (middle, y + h)], b.tiles)
    inset = 0.12 * (x1 - x0)
    pen.shape([(x0 + inset, y + 0.1), (x1 - inset, y + 0.1), (middle, y + h * 0.76)], b.wall, 0.95)
    pen.disc(middle, y + h * 0.3, h * 0.14, b.trim)
    pen.disc(middle, y + h * 0.3, h * 0.1, DARK)


def _mansard(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    slope = min(0.22 * (x1 - x0), 1.6)
    pen.shape([(x0 - 0.3, y), (x1 + 0.3, y), (x1 - slope, y + h), (x0 + slope, y + h)], b.tiles)
    for i in range(1, 6):
        left, right = x0 + slope * i / 6, x1 - slope * i / 6
        pen.box(left, y + h * i / 6, right, y + h * i / 6 + 0.07, colour=b.tiles, strength=0.8)
    dormers = max(1, b.bays // 2) if x1 - x0 > 5 else 1
    for i in range(dormers):
        x = x0 + slope + (i + 0.5) * (x1 - x0 - 2 * slope) / dormers
        r = min(0.75, (x1 - x0) * 0.12)
        pen.shape([(x - r * 1.3, y + h * 0.62), (x + r * 1.3, y + h * 0.62), (x, y + h * 0.9)],
                  b.tiles, 0.7)  # fmt: skip
        pen.box(x - r, y + h * 0.12, x + r, y + h * 0.62, colour=b.trim)
        pen.box(x - r * 0.6, y + h * 0.2, x + r * 0.6, y + h * 0.55, colour=DARK)


def _dome(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    x, r, drum = (x0 + x1) / 2, min((x1 - x0) * 0.5, h * 0.8), h * 0.18
    pen.box(x - r, y, x + r, y + drum, colour=b.trim, strength=0.9)
    count = max(3, round(r * 1.6))
    for i in range(count):
        px = x - r + (i + 0.5) * 2 * r / count
        pen.box(px - 0.14, y + drum * 0.2, px + 0.14, y + drum * 0.85, colour=DARK)
    rise = h * 0.62
    # Meridians drawn as nested half-ellipses shade the dome from the rim inwards.
    for k, tone in ((1.0, 0.78), (0.8, 1.0), (0.76, 0.88), (0.45, 1.08), (0.41, 0.94), (0.1, 1.12)):
        pen.shape(arc(x, y + drum, r * k, rise, 0, 180, 21), b.tiles, tone)
    top = y + drum + rise
    pen.box(x - r * 0.13, top - 0.1, x + r * 0.13, top + h * 0.12, colour=b.trim)
    pen.shape([(x - r * 0.17, top + h * 0.1), (x + r * 0.17, top + h * 0.1), (x, top + h * 0.2)],
              b.tiles)  # fmt: skip


def _onion(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    x, r = (x0 + x1) / 2, min((x1 - x0) / 2, h * 0.6)
    bulge = [
        (0.8, 0), (1.04, 0.14), (1.08, 0.28), (0.92, 0.44), (0.6, 0.6), (0.25, 0.74), (0.06, 1),
    ]  # fmt: skip
    for k, tone in ((1.0, 0.78), (0.62, 1.0), (0.25, 1.15)):
        right = [(x + r * k * px, y + h * py) for px, py in bulge]
        left = [(2 * x - px, py) for px, py in reversed(right)]
        pen.shape([*right, *left], b.tiles, tone)
    pen.disc(x, y + h * 0.97, max(0.12, r * 0.09), b.accent)


def _spire(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    x, r = (x0 + x1) / 2, min((x1 - x0) / 2 + 0.3, h * 0.45)
    pen.box(x0, y, x1, y + 0.25, colour=b.trim)
    pen.shape([(x - r, y + 0.2), (x + r, y + 0.2), (x, y + h)], b.tiles)
    pen.shape([(x + r * 0.15, y + 0.2), (x + r, y + 0.2), (x, y + h)], b.tiles, 0.75)
    for k in (0.25, 0.5, 0.72):
        s = r * (1 - k)
        pen.box(x - s, y + h * k, x + s, y + h * k + 0.12, colour=b.trim, strength=0.8)


def _stepped(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    middle, steps = (x0 + x1) / 2, 5 if x1 - x0 > 5 else 3
    for i in range(steps):
        s = (x1 - x0) / 2 * (1 - i / steps)
        low, high = y + h * i / steps, y + h * (i + 1) / steps
        pen.box(middle - s, low, middle + s, high, colour=b.wall, strength=0.97)
        pen.box(middle - s - 0.1, high - 0.22, middle + s + 0.1, high, colour=b.trim)
    r = min(0.9, (x1 - x0) * 0.1)
    pen.shape(opening("arched", middle, y + h * 0.2, 2 * r, h * 0.35), DARK)


def _battlements(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    h = min(h, 1.9)
    pen.box(x0 - 0.25, y, x1 + 0.25, y + h * 0.5, colour=b.wall, strength=0.95)
    teeth = max(3, round((x1 - x0) / 1.5))
    pitch = (x1 - x0 + 0.5) / (teeth - 0.45)
    for i in range(teeth):
        left = x0 - 0.25 + i * pitch
        pen.box(left, y + h * 0.45, left + pitch * 0.55, y + h, colour=b.wall, strength=0.95)
        pen.box(left, y - 0.28, left + pitch * 0.3, y, colour=b.wall, strength=0.6)


def _sawtooth(pen: Pen, b: Building, x0: float, x1: float, y: float, h: float) -> None:
    count = max(1, b.bays // 2) if x1 - x0 > 5 else 1
    step = (x1 - x0) / count
    for i in range(count):
        left = x0 + i * step
        peak = (left + step / 2, y + h)
        pen.shape([(left, y), (left + step, y), peak], b.tiles)
        pen.shape([(left + step / 2, y), (left + step, y), peak], b.tiles, 0.78)
        pen.disc(*peak, 0.18, b.trim)


_ROOFS: dict[str, Callable[[Pen, Building, float, float, float, float], None]] = {
    "flat": _flat,
    "gable": _gable,
    "mansard": _mansard,
    "dome": _dome,
    "onion": _onion,
    "spire": _spire,
    "stepped": _stepped,
    "battlements": _battlements,
    "sawtooth": _sawtooth,
}


def _tower(pen: Pen, b: Building, tower: Tower, rng: np.random.Generator) -> None:
    x0, x1 = tower.x - tower.width / 2, tower.x + tower.width / 2
    pen.box(x0 - 0.35, 0, x1 + 0.35, tower.height, colour=b.wall, strength=0.6)  # its own shadow
    pen.box(x0, 0, x1, tower.height, colour=b.wall, strength=1.04)
    _masonry(pen, b, x0, x1, tower.height, np.random.default_rng(b.grain + 1))
    body = tower.height - (tower.width * 1.1 if tower.clock else 0)
    _storeys(pen, b, x0 + 0.3, x1 - 0.3, body, max(1, round(tower.width / 3)), 1, rng)
    _ledges(pen, b, x0, x1, tower.height)
    _ROOFS[tower.cap](pen, b, x0, x1, tower.height, tower.cap_height)
    if tower.clock:
        _clock(pen, b, tower.x, tower.height - tower.width * 0.55, tower.width * 0.34)


def _weather(sheet: Image.Image, shade: Image.Image, grain: int) -> Image.Image:
    """Stain the sheet with the building's own dirt and multiply it by `shade`."""
    spots = np.random.default_rng(grain).random((18, 24), dtype=np.float32)
    dirt = Image.fromarray((255 - 34 * spots).astype(np.uint8)).resize(
        sheet.size, Image.Resampling.BICUBIC
    )
    dark = ImageChops.multiply(dirt, shade.resize(sheet.size, Image.Resampling.BILINEAR))
    solid = Image.new("L", sheet.size, 255)
    return ImageChops.multiply(sheet, Image.merge("RGBA", (dark, dark, dark, solid)))


def front(
    b: Building, light: Light, scale: float, shade: Image.Image, rng: np.random.Generator
) -> Image.Image:
    """The front of a building on a transparent sheet.

    It is an RGBA picture of twice `b.half` by `b.height` metres, the ground at its lower edge,
    with `scale` pixels per metre. `shade` is a small grey picture stretched over the front: 255 in
    the sun, less in shadow. `rng` decides which lamps are on.
    """
    pen = Pen(-b.half, 2 * b.half, b.height, 2 * scale, light)
    x0, x1, top = -b.width / 2, b.width / 2, b.wall_height
    _ROOFS[b.roof](pen, b, x0, x1, top, b.roof_height)
    pen.box(x0, 0, x1, top, colour=b.wall)
    _masonry(pen, b, x0, x1, top, np.random.default_rng(b.grain))
    pen.box(x0, 0, x1, 0.7, colour=b.wall, strength=0.7)
    _storeys(pen, b, x0, x1, top, b.bays, 0 if b.ground_floor == "windows" else 1, rng, b.blind)
    _ledges(pen, b, x0, x1, top)
    if b.columns != "none":
        _columns(pen, b)
    for tower in b.towers:
        _tower(pen, b, tower, rng)
    _entrance(pen, b, rng)
    for i in range(b.banners):
        _banner(pen, b, (i + 0.5 - b.banners / 2) * b.bay_width * 2)
    if b.emblem != "none":
        middle = top - b.floor_height * 0.62
        {"clock": _clock, "rose": _rose}[b.emblem](pen, b, 0.0, middle, b.floor_height * 0.5)
    return _weather(pen.sheet.reduce(2), shade, b.grain)


def side(b: Building, light: Light, scale: float, rng: np.random.Generator) -> Image.Image:
    """A side wall, `b.depth` by `b.wall_height` metres, darker than the front."""
    pen = Pen(0, b.depth, b.wall_height + 0.3, 2 * scale, light)
    pen.box(0, 0, b.depth, b.wall_height, colour=b.wall)
    _masonry(pen, b, 0, b.depth, b.wall_height, np.random.default_rng(b.grain + 2))
    bays = max(1, round(b.depth / b.bay_width))
    _storeys(pen, b, 0, b.depth, b.wall_height, bays, 0, rng)
    _ledges(pen, b, 0, b.depth, b.wall_height)
    return _weather(pen.sheet.reduce(2), Image.new("L", (2, 2), 168), b.grain)
