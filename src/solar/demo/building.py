"""Toy buildings: what they look like, and their flat, frontal pictures.

Lengths are metres, y points up from the ground and x = 0 is the middle of the front.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from PIL import Image, ImageChops

from solar.demo.sheet import Colour, Light, Part, Points, Sheet, box, disc

T = TypeVar("T")

DARK: Colour = (46, 42, 44)  # of beams, hands of clocks, and what lies behind openings
GLASS: Colour = (78, 102, 134)
LAMP: Colour = (440, 370, 230)  # brighter than white: it outshines the night
PAINTS: tuple[Colour, ...] = (
    (226, 208, 172), (196, 104, 80), (214, 214, 208), (232, 186, 112), (170, 150, 130),
    (202, 132, 128), (150, 168, 176), (240, 232, 214), (138, 92, 76), (166, 184, 150),
)  # fmt: skip
_TRIMS: tuple[Colour, ...] = ((246, 240, 226), (222, 206, 178), (198, 196, 192), (120, 96, 80))
_ACCENTS: tuple[Colour, ...] = (
    (172, 82, 60), (92, 104, 120), (104, 156, 140), (128, 100, 82), (204, 164, 84), (74, 80, 92),
    (168, 44, 48), (34, 84, 130), (44, 104, 74), (196, 142, 44), (104, 62, 118), (84, 60, 46),
)  # fmt: skip

_OPENINGS: dict[str, Points] = {
    "rectangular": box(-0.5, 0, 0.5, 1),
    "arched": [(-0.5, 0), (0.5, 0), *disc(0, 0.68, 0.5, 0.32, 180)],
    "pointed": [(-0.5, 0), (0.5, 0), (0.5, 0.55), (0.3, 0.86), (0, 1), (-0.3, 0.86), (-0.5, 0.55)],
    "round": disc(0, 0.5, 0.5, 0.36),
    "hexagonal": [(-0.3, 0.1), (0.3, 0.1), (0.5, 0.5), (0.3, 0.9), (-0.3, 0.9), (-0.5, 0.5)],
}


def _peak(half: float, low: float = 0, high: float = 1) -> Points:
    return [(-half, low), (half, low), (0, high)]


# Roofs for walls and caps for towers: parts of the whole width, and parts every few metres.
_ROOFS: dict[str, tuple[list[Part], list[Part]]] = {
    "flat": (
        [("wall", 0.92, box(-0.5, 0, 0.5, 1)), ("trim", 1, box(-0.51, 0.85, 0.51, 1))],
        [("wall", 0.6, box(x, 0.2, x + 0.13, 0.8)) for x in (-0.4, -0.07, 0.26)],
    ),
    "gable": (
        [("tiles", 1, _peak(0.52)), ("wall", 0.95, _peak(0.38, 0.02, 0.76)),
         ("trim", 1, disc(0, 0.3, 0.05, 0.14)), ("dark", 1, disc(0, 0.3, 0.035, 0.1))],
        [],
    ),
    "mansard": (
        [("tiles", 1, [(-0.52, 0), (0.52, 0), (0.45, 1), (-0.45, 1)]),
         *(("tiles", 0.8, box(-0.47, y, 0.47, y + 0.03)) for y in (0.2, 0.4, 0.6, 0.8))],
        [("tiles", 0.7, _peak(0.3, 0.62, 0.9)), ("trim", 1, box(-0.23, 0.12, 0.23, 0.62)),
         ("dark", 1, box(-0.14, 0.2, 0.14, 0.55))],
    ),
    "dome": (  # nested half-ellipses shade it from the rim inwards
        [("trim", 0.9, box(-0.5, 0, 0.5, 0.18)),
         *(("tiles", 0.78 + (1 - k) * 0.4, disc(0, 0.18, k / 2, 0.66, 180)) for k in (1, 0.8, 0.5)),
         ("tiles", 0.8, disc(0, 0.18, 0.2, 0.66, 180)), ("trim", 1, box(-0.05, 0.82, 0.05, 1))],
        [],
    ),
    "spire": (
        [("tiles", 1, _peak(0.54)), ("tiles", 0.75, [(0.08, 0), (0.54, 0), (0, 1)]),
         *(("trim", 0.8, box((y - 1) / 2, y, (1 - y) / 2, y + 0.02)) for y in (0.25, 0.5, 0.72))],
        [],
    ),
    "stepped": (
        [(name, 1, box((y - 1) / 2, y + low, (1 - y) / 2, y + 0.2))
         for y in (0, 0.2, 0.4, 0.6, 0.8) for name, low in (("wall", 0), ("trim", 0.16))],
        [],
    ),
    "battlements": (
        [("wall", 0.95, box(-0.51, 0, 0.51, 0.5))],
        [(name, 0.95, box(x, low, x + wide, high)) for x in (-0.42, 0.08)
         for name, low, wide, high in (("wall", 0.45, 0.3, 1), ("trim", -0.2, 0.14, 0))],
    ),
    "sawtooth": ([], [("tiles", 1, _peak(0.5)), ("tiles", 0.78, [(0, 0), (0.5, 0), (0, 1)])]),
}  # fmt: skip
_NARROW = {"dome", "spire"}  # not much wider than high
_PITCH = 3.2
_COLUMN: list[Part] = [
    ("trim", 0.72, box(-0.33, 0, 0.33, 1)), ("trim", 1, box(-0.27, 0, 0.13, 1)),
    ("trim", 0.9, box(-0.48, 0, 0.48, 0.05)), ("trim", 1, box(-0.5, 0.95, 0.5, 1)),
]  # fmt: skip
_BANNER: list[Part] = [
    ("accent", 1.1, [(-0.5, 1), (0.5, 1), (0.5, 0), (0, 0.1), (-0.5, 0)]),
    ("trim", 1, box(-0.18, 0.16, 0.18, 0.93)),
]
# Lines over a wall: whether they lie, their pitch and width, colour and brightness. A pitch of 0
# is that of the building: a floor, half a bay.
_TEXTURES: dict[str, list[tuple[bool, float, float, str, float]]] = {
    "plaster": [],
    "brick": [(True, 0.42, 0.08, "wall", 0.84), (False, 1.05, 0.06, "wall", 0.9)],
    "stone": [(True, 0.85, 0.1, "wall", 0.8), (False, 1.7, 0.08, "wall", 0.84)],
    "stripes": [(True, 0.9, 0.42, "trim", 0.9)],
    "timber": [(True, 0, 0.28, "dark", 1), (False, 0, 0.2, "dark", 1)],
    "fins": [(False, 0, 0.18, "trim", 0.95)],
}


class Dice:
    """Random choices by `Generator.random` alone: NumPy may change its other distributions."""

    def __init__(self, *key: int):
        self.rng = np.random.default_rng(key)

    def between(self, low: float, high: float) -> float:
        """A number from low to high."""
        return low + (high - low) * float(self.rng.random())

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[int(self.rng.random() * len(options))]

    def vary(self, colour: Colour, by: int) -> Colour:
        """A colour like this one."""
        red, green, blue = (min(255, max(0, c + round(self.between(-by, by)))) for c in colour)
        return red, green, blue


class Tower(NamedTuple):
    """A tower that stands in front of the wall; its `height` includes the wall's."""

    x: float
    width: float
    height: float
    cap: str
    cap_height: float


class Building:
    """A landmark, independent of viewpoint and time."""

    def __init__(self, dice: Dice):
        self.floors = dice.pick((2, 2, 3, 3, 4, 5, 6))
        self.bays = dice.pick(range(3, 10) if self.floors < 5 else range(4, 9))
        self.floor_height = dice.between(3.0, 4.2)
        self.bay_width = dice.between(2.3, 3.6)
        self.width = self.bays * self.bay_width
        self.wall_height = self.floors * self.floor_height
        self.depth = dice.between(0.5, 0.9) * self.width
        self.roof = dice.pick([*_ROOFS])
        steepness = {"flat": 0.06, "battlements": 0.1, "dome": 0.5, "spire": 0.8, "sawtooth": 0.2}
        rise = self.width * steepness.get(self.roof, 0.28) * dice.between(0.85, 1.2)
        self.roof_height = max(1.0, min(rise, 1.9 if self.roof == "battlements" else 12))
        self.texture = dice.pick(["plaster", *_TEXTURES])
        self.window = dice.pick(["rectangular", *_OPENINGS])
        self.window_width = dice.between(0.34, 0.62)  # of a bay
        self.window_height = dice.between(0.44, 0.68)  # of a floor
        self.panes = dice.pick((1, 2, 3))
        self.ledges = dice.pick((0, 1, 2, 3))  # floors between two of them; 0 for none
        self.columns = dice.pick(("none", "none", "ground", "giant"))
        self.ground_floor = dice.pick(("windows", "arcade", "wall"))
        self.door = dice.pick(("rectangular", "arched", "pointed"))
        self.door_width = dice.between(1.5, 2.6)
        self.banners = dice.pick((0, 0, 0, 1, 2, 3))
        self.towers = _towers(dice, self.width, self.wall_height)
        self.clock = dice.pick((True, False, False))
        self.colours: dict[str, Colour] = {
            "wall": dice.vary(dice.pick(PAINTS), 8),
            "trim": dice.pick(_TRIMS),
            "tiles": dice.vary(dice.pick(_ACCENTS), 8),
            "accent": dice.pick(_ACCENTS),
            "dark": DARK,
        }
        self.grain = dice.pick(range(2**31))  # seeds the stains
        # Half the width of everything, and the height of everything, spires and eaves included.
        ends = (abs(t.x) + t.width / 2 for t in self.towers)
        self.half = max([self.width / 2, *ends]) + 0.6
        tops = (t.height + t.cap_height for t in self.towers)
        self.height = max([self.wall_height + self.roof_height, *tops]) * 1.02 + 0.8


def _towers(dice: Dice, width: float, wall_height: float) -> list[Tower]:
    """No tower, one in the middle or at a corner, two at the corners, or all three."""
    corner = width / 2
    places: Sequence[float] = dice.pick(
        ((), (), (), (0,), (corner,), (-corner, corner), (-corner, corner), (-corner, corner, 0))
    )
    wide, rise = dice.between(0.16, 0.26) * width, dice.between(1.12, 1.75) * wall_height
    cap = dice.pick(("spire", "spire", "dome", "battlements", "flat", "gable"))
    high = wide * dice.between(0.8, 1.3) * (2 if cap == "spire" else 1)
    high = min(high, {"flat": 0.9, "battlements": 1.9}.get(cap, high))
    middle = dice.between(1.0, 1.35)
    return [Tower(x, max(2.6, wide), rise * (1 if x else middle), cap, high) for x in places]


def _grown(points: Points, k: float) -> Points:
    """An opening `k` times as wide and high, with the same middle."""
    return [(x * k, 0.5 + (y - 0.5) * k) for x, y in points]


def _window(b: Building) -> list[Part]:
    outline = _OPENINGS[b.window]
    bars = [box(i / b.panes - 0.53, 0.04, i / b.panes - 0.47, 0.94) for i in range(1, b.panes)]
    bars += [box(-0.46, 0.6, 0.46, 0.64)] if bars else []
    return [
        ("trim", 1, _grown(outline, 1.2)),
        ("trim", 0.45, outline),
        ("glass", 1, _grown(outline, 0.93)),
        *(("trim", 0.8, bar) for bar in bars),
        ("trim", 1, box(-0.62, -0.11, 0.62, -0.01)),
        ("wall", 0.62, box(-0.58, -0.16, 0.58, -0.11)),
    ]


def _clock(grain: int) -> list[Part]:
    lines = [(30 * i, 0.78, 0.93, 0.03) for i in range(12)]
    lines += [(30 * (grain % 12), 0.0, 0.5, 0.06), (30 * (grain % 11), 0.0, 0.74, 0.04)]
    parts: list[Part] = [("accent", 1, disc(0, 0.5, 0.58)), ("trim", 1.1, disc(0, 0.5, 0.5))]
    for turn, start, stop, thick in lines:
        x, y = disc(0, 0, 0.5, turn=turn, n=1)[1]
        ends = box(start, -thick, stop, thick)
        parts.append(("dark", 1, [(x * k - y * t, 0.5 + y * k + x * t) for k, t in ends]))
    return parts


def _roof(
    sheet: Sheet, kind: str, b: Building, x: float, y: float, width: float, height: float
) -> None:
    """A roof or cap, on the line of that width around (x, y)."""
    whole, repeated = _ROOFS[kind]
    span = min(width, 1.5 * height) if kind in _NARROW else width
    sheet.parts(whole, b.colours, x, y, span, height)
    pitch = width / max(1, round(width / _PITCH))
    for place in np.arange(pitch / 2, width, pitch).tolist():
        sheet.parts(repeated, b.colours, x - width / 2 + place, y, pitch, height)


def _wall(
    sheet: Sheet, b: Building, dice: Dice, x0: float, x1: float, top: float, first: int = 0
) -> None:
    """A wall with its masonry, ledges, and windows from the `first` floor on, some of them lit."""
    colours, width = b.colours, x1 - x0
    sheet.shape(box(x0, 0, x1, top), colours["wall"])
    for lies, pitch, wide, name, tone in _TEXTURES[b.texture]:
        step = pitch or (b.floor_height if lies else b.bay_width / 2)
        for at in np.arange(0, (top if lies else width) - wide, step).tolist():
            line = box(x0, at, x1, at + wide) if lies else box(x0 + at, 0, x0 + at + wide, top)
            sheet.shape(line, colours[name], tone)
    bays, window = max(1, round(width / b.bay_width)), _window(b)
    bay, high = width / bays, b.floor_height * b.window_height
    for floor in range(first, int(top / b.floor_height + 0.01)):
        y = floor * b.floor_height + (b.floor_height - high) / 2
        for i in range(bays):
            glass = LAMP if dice.between(0, 1) < sheet.light.lit else dice.vary(GLASS, 20)
            place = (x0 + (i + 0.5) * bay, y, bay * b.window_width, high)
            sheet.parts(window, {**colours, "glass": glass}, *place)
    every = b.ledges * b.floor_height or top
    for y in [*np.arange(every, top - 1, every).tolist(), top]:
        sheet.shape(box(x0, y - 0.62, x1, y - 0.2), colours["wall"], 0.66)
        sheet.shape(box(x0 - 0.2, y - 0.25, x1 + 0.2, y + 0.12), colours["trim"])


def _entrance(sheet: Sheet, b: Building) -> None:
    """The arcade, if there is one, the door, and its steps."""
    arch, high = _OPENINGS["arched"], b.floor_height * 0.82
    for i in range(b.bays if b.ground_floor == "arcade" else 0):
        x = (i + 0.5) * b.bay_width - b.width / 2
        parts: list[Part] = [("trim", 1, _grown(arch, 1.1)), ("dark", 1.2, arch)]
        sheet.parts(parts, b.colours, x, 0, b.bay_width * 0.74, high)
    wide, high = b.door_width, min(b.floor_height * 0.86, b.door_width * 1.8)
    for grow, name, tone in ((0.7, "trim", 1), (0.3, "trim", 0.6), (0, "accent", 0.75)):
        door = (name, tone, _OPENINGS[b.door])
        sheet.parts([door], b.colours, 0, 0, wide + grow, high + grow / 2)
    for step in range(3):
        half, y = wide * 0.8 + 0.35 * (3 - step), 0.16 * step
        sheet.shape(box(-half, y, half, y + 0.16), b.colours["trim"], 0.8 + 0.08 * step)


def _weather(sheet: Sheet, shade: Image.Image, grain: int) -> Image.Image:
    """Stain the sheet with the building's own dirt and multiply it by `shade`."""
    flat = sheet.picture()
    dark = shade.resize(flat.size)
    for rows, depth in ((18, 40), (90, 30)):
        spots = np.random.default_rng((grain, rows)).random((rows, rows), dtype=np.float32)
        dirt = Image.fromarray((255 - depth * spots**3).astype(np.uint8))
        dark = ImageChops.multiply(dark, dirt.resize(flat.size))
    solid = Image.new("L", flat.size, 255)
    return ImageChops.multiply(flat, Image.merge("RGBA", (dark, dark, dark, solid)))


def front(b: Building, light: Light, scale: float, shade: Image.Image, dice: Dice) -> Image.Image:
    """The front of a building on a transparent sheet.

    It is an RGBA picture of twice `b.half` by `b.height` metres, the ground at its lower edge,
    with `scale` pixels per metre. `shade` is a small grey picture stretched over the front: 255 in
    the sun, less in shadow. `dice` decide which lamps are on.
    """
    sheet = Sheet(-b.half, 2 * b.half, b.height, scale, light)
    edge, top, colours = b.width / 2, b.wall_height, b.colours
    _roof(sheet, b.roof, b, 0, top, b.width, b.roof_height)
    _wall(sheet, b, dice, -edge, edge, top, first=int(b.ground_floor != "windows"))
    for i in range(b.bays + 1 if b.columns != "none" else 0):
        x = min(max(i * b.bay_width - edge, 0.4 - edge), edge - 0.4)
        sheet.parts(_COLUMN, colours, x, 0, 1.1, top if b.columns == "giant" else b.floor_height)
    for t in b.towers:
        left, right = t.x - t.width / 2, t.x + t.width / 2
        sheet.shape(box(left - 0.35, 0, right + 0.35, t.height), colours["wall"], 0.6)  # a shadow
        _wall(sheet, b, dice, left, right, t.height, first=1)
        _roof(sheet, t.cap, b, t.x, t.height, t.width, t.cap_height)
    _entrance(sheet, b)
    for i in range(b.banners):
        low, x = top * 0.45, (i + 0.5 - b.banners / 2) * b.bay_width * 2
        sheet.parts(_BANNER, colours, x, low, 1.1, top - 0.9 - low)
    if b.clock:
        size = b.floor_height * 0.9
        sheet.parts(_clock(b.grain), colours, 0, top - 1.1 * size, size, size)
    return _weather(sheet, shade, b.grain)


def side(b: Building, light: Light, scale: float, dice: Dice, haze: float = 0) -> Image.Image:
    """A side wall, `b.depth` by `b.wall_height` metres, darker than the front."""
    sheet = Sheet(0, b.depth, b.wall_height + 0.3, scale, light, haze)
    _wall(sheet, b, dice, 0, b.depth, b.wall_height)
    return _weather(sheet, Image.new("L", (2, 2), 168), b.grain)
