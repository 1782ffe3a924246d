"""Toy landmarks: procedural buildings rendered from any viewpoint, in any light.

They stand in for real photos in the demo, the tests and the small training runs. The same numbers
always give the same photo; two landmarks may well share their colours, and the light changes those
anyway, so that finding a landmark again takes more than a colour histogram.
"""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from solar.demo.drawing.camera import Camera, aim_camera, paste_plane
from solar.demo.drawing.facade import front, side
from solar.demo.drawing.surroundings import Easel, empty_world, paint_before, paint_behind
from solar.demo.drawing.world import LIGHTS, Building, Colour, Occluder, Scene, Tower
from solar.errors import SolarError
from solar.files import replacing

T = TypeVar("T")

# Distractors are landmarks from a range of high numbers.
DISTRACTORS = 1_000_000
_SMALLEST = 16

_WALLS: tuple[Colour, ...] = (
    (226, 208, 172), (196, 104, 80), (214, 214, 208), (232, 186, 112), (170, 150, 130),
    (202, 132, 128), (150, 168, 176), (240, 232, 214), (138, 92, 76), (166, 184, 150),
)  # fmt: skip
_TRIMS: tuple[Colour, ...] = ((246, 240, 226), (222, 206, 178), (198, 196, 192), (120, 96, 80))
_TILES: tuple[Colour, ...] = (
    (172, 82, 60), (92, 104, 120), (104, 156, 140), (128, 100, 82), (204, 164, 84), (74, 80, 92),
)  # fmt: skip
_ACCENTS: tuple[Colour, ...] = (
    (168, 44, 48), (34, 84, 130), (44, 104, 74), (196, 142, 44), (104, 62, 118), (84, 60, 46),
)  # fmt: skip
_GROUNDS: tuple[Colour, ...] = ((122, 150, 84), (168, 160, 148), (196, 182, 150), (112, 112, 116))


class Dice:
    """Random choices by `Generator.random` alone: NumPy may change its other distributions."""

    def __init__(self, *key: int):
        self.rng = np.random.default_rng(key)

    def between(self, low: float, high: float) -> float:
        """A number from low to high."""
        return low + (high - low) * float(self.rng.random())

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.rng.random() * (high - low + 1))

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[int(self.rng.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """True as often as `probability` says."""
        return float(self.rng.random()) < probability

    def vary(self, colour: Colour, by: int) -> Colour:
        """A colour like this one."""
        red, green, blue = (min(255, max(0, c + self.whole(-by, by))) for c in colour)
        return red, green, blue


def _towers(dice: Dice, width: float, wall_height: float, clock: bool) -> tuple[Tower, ...]:
    """No tower, one in the middle or at a corner, two at the corners, or all three."""
    count = dice.pick((0, 0, 0, 1, 1, 2, 2, 3))
    corner = width / 2
    places = {0: (), 1: (dice.pick((0.0, 0.0, -corner, corner)),), 2: (-corner, corner)}.get(
        count, (-corner, corner, 0.0)
    )
    wide = dice.between(0.16, 0.26) * width
    rise = dice.between(1.12, 1.75) * wall_height
    cap = dice.pick(("spire", "spire", "dome", "onion", "battlements", "flat", "gable"))
    cap_height = wide * dice.between(0.8, 1.3) * (2.0 if cap == "spire" else 1.0)
    if cap == "flat":
        cap_height = 0.9
    middle_rise = dice.between(1.0, 1.35)
    return tuple(
        Tower(x, max(2.6, wide), rise * (middle_rise if x == 0 else 1), cap, cap_height,
              clock and (x == 0 or count < 3))
        for x in places
    )  # fmt: skip


def building(identity: int, *, seed: int = 0) -> Building:
    """The parameters of landmark `identity`, the same for all of its photos."""
    dice = Dice(seed, identity)
    floors = dice.pick((2, 2, 3, 3, 4, 5, 6))
    bays = dice.whole(3, 9) if floors < 5 else dice.whole(4, 8)
    floor_height, bay_width = dice.between(3.0, 4.2), dice.between(2.3, 3.6)
    width, wall_height = bays * bay_width, floors * floor_height
    roof = dice.pick(
        ("flat", "gable", "mansard", "dome", "stepped", "battlements", "sawtooth", "spire")
    )
    steepness = {"flat": 0.06, "battlements": 0.1, "dome": 0.5, "spire": 0.8, "sawtooth": 0.2}
    roof_height = min(width * steepness.get(roof, 0.28), 11) * dice.between(0.85, 1.2)
    emblem = dice.pick(("none", "none", "none", "clock", "rose"))
    towers = _towers(dice, width, wall_height, dice.chance(0.3))
    if any(t.x == 0 for t in towers):
        emblem = "none"
    return Building(
        floors=floors,
        bays=bays,
        floor_height=floor_height,
        bay_width=bay_width,
        depth=dice.between(0.5, 0.9) * width,
        texture=dice.pick(("plaster", "plaster", "brick", "stone", "stripes", "timber", "fins")),
        window=dice.pick(("rectangular", "rectangular", "arched", "pointed", "round", "hexagonal")),
        window_width=dice.between(0.34, 0.62),
        window_height=dice.between(0.44, 0.68),
        panes=dice.whole(1, 3),
        shutters=dice.chance(0.2),
        cornice_every=dice.whole(0, 3),
        columns=dice.pick(("none", "none", "ground", "giant")),
        ground_floor=dice.pick(("windows", "arcade", "shops", "wall")),
        door=dice.pick(("rectangular", "arched", "pointed")),
        door_width=dice.between(1.5, 2.6),
        roof=roof,
        roof_height=max(1.0, roof_height),
        emblem=emblem,
        banners=dice.pick((0, 0, 0, 1, 2, 3)),
        towers=towers,
        wall=dice.vary(dice.pick(_WALLS), 8),
        trim=dice.pick(_TRIMS),
        tiles=dice.vary(dice.pick(_TILES), 8),
        accent=dice.pick(_ACCENTS),
        blind=frozenset((dice.whole(0, floors - 1), dice.whole(0, bays - 1)) for _ in range(3)),
        grain=dice.whole(0, 2**31 - 1),
    )


def _occluder(dice: Dice) -> Occluder:
    kind = dice.pick(("tree", "tree", "person", "person", "person", "car", "car", "lamp"))
    leaves = dice.vary((78, 120, 58), 18)
    return Occluder(
        kind=kind,
        along=dice.between(-1, 1),
        near=dice.between(0.1, 0.32) if kind in ("tree", "lamp") else dice.between(0.1, 0.7),
        size=dice.between(0.85, 1.2),
        colour=leaves if kind == "tree" else dice.vary(dice.pick(_ACCENTS + _WALLS), 12),
    )


def scene(identity: int, view: int, *, seed: int = 0) -> Scene:
    """The parameters of one photo: viewpoint, light, passers-by and camera."""
    dice = Dice(seed, identity, view)
    close = dice.chance(0.2)
    light = dice.pick(("day", "day", "day", "morning", "overcast", "dusk", "night"))
    return Scene(
        light=light,
        angle=dice.between(-52, 52),
        eye=dice.between(1.5, 3.0) if dice.chance(0.75) else dice.between(4, 14),
        roll=dice.between(-5, 5),
        zoom=dice.between(1.15, 1.6) if close else dice.between(0.7, 1.08),
        aim=(dice.between(-0.25, 0.25), dice.between(-0.06, 0.08)),
        lens=dice.between(0.75, 1.3),
        sun=dice.between(-1, 1),
        cast=dice.between(0.15, 0.6) if dice.chance(0.4) else -1.0,
        clouds=dice.between(0.2, 0.6),
        haze=dice.between(0.1, 0.6),
        ground=dice.vary(dice.pick(_GROUNDS), 10),
        road=dice.between(4, 9) if dice.chance(0.55) else 0.0,
        occluders=tuple(_occluder(dice) for _ in range(dice.whole(0, 6))),
        exposure=dice.between(0.86, 1.14),
        warmth=dice.between(-0.07, 0.07),
        contrast=dice.between(0.85, 1.1),
        vignette=dice.between(0.0, 0.4),
        blur=dice.between(0.0, 0.9),
        noise=dice.between(0.5, 4.5),
        quality=dice.whole(72, 95),
        clutter=dice.whole(0, 2**31 - 1),
    )


def landmark(
    identity: int, view: int, *, size: tuple[int, int] = (320, 240), seed: int = 0
) -> Image.Image:
    """Photograph toy landmark `identity`; `view` decides on viewpoint, light, zoom, passers-by.

    The framing follows the size, nothing is stretched. Another seed gives other buildings. A
    SolarError if a number is negative, or the picture has less than 16 pixels on a side.
    """
    if min(identity, view, seed) < 0:
        raise SolarError(
            f"Toy landmark {identity}, view {view}, seed {seed}: give numbers from 0 upwards."
        )
    if min(size) < _SMALLEST:
        raise SolarError(
            f"A toy photo of {size[0]}x{size[1]} pixels is too small: ask for at least "
            f"{_SMALLEST}x{_SMALLEST}."
        )
    return render(building(identity, seed=seed), scene(identity, view, seed=seed), size)


def write(
    folder: Path, *, landmarks: int = 8, views: int = 6, size: tuple[int, int] = (320, 240),
    seed: int = 0, first: int = 0, distractors: int = 0,
) -> list[Path]:  # fmt: skip
    """Write photos as `landmark-003/view-002.jpg`, and `distractors/photo-004.jpg`.

    Buildings are numbered from `first` on; distractors appear nowhere else. Files that already hold
    the same photo are kept. Returns the files, landmarks first, in order.
    """
    if min(landmarks, views, distractors) < 0:
        raise SolarError(
            f"Cannot write {landmarks} landmarks with {views} views and {distractors} distractors: "
            "give numbers from 0 upwards."
        )
    folder = Path(folder)
    plan = [
        (folder / f"landmark-{identity:03d}" / f"view-{view:03d}.jpg", identity, view)
        for identity in range(first, first + landmarks)
        for view in range(views)
    ] + [
        (folder / "distractors" / f"photo-{n:03d}.jpg", DISTRACTORS + n, 0)
        for n in range(first, first + distractors)
    ]
    for path, identity, view in plan:
        photo = landmark(identity, view, size=size, seed=seed)
        encoded = io.BytesIO()
        photo.save(encoded, "JPEG", quality=scene(identity, view, seed=seed).quality)
        if path.is_file() and path.read_bytes() == encoded.getvalue():
            continue
        with replacing(path, durable=False) as part:
            part.write_bytes(encoded.getvalue())
    return [path for path, _, _ in plan]


def _shade(s: Scene) -> Image.Image:
    """How much light each part of the front gets: a slope, a cast shadow, floodlights at night."""
    y, x = np.mgrid[0:1:32j, 0:1:32j].astype(np.float32)
    shade = 1 - 0.08 * (1 - s.sun * (2 * x - 1)) - 0.04 * y
    if s.light == "night":
        shade = 0.6 + 0.4 * y
    if s.cast >= 0:
        edge = s.cast + math.copysign(0.5, s.sun) * (y - 0.5)
        inside = x < edge if s.sun > 0 else x > 1 - edge
        shade = np.where(inside, shade * (1 - LIGHTS[s.light].shadow), shade)
    return Image.fromarray(np.clip(shade * 255, 0, 255).astype(np.uint8))


def _building(
    photo: Image.Image, b: Building, s: Scene, cam: Camera, rng: np.random.Generator
) -> None:
    light = LIGHTS[s.light]
    distance = math.hypot(cam.place[0], cam.place[2])
    # Drawn about as large as it is seen, so that the warp neither blurs nor skips pixels; the
    # limit keeps close-ups of big buildings from costing more than the photo is worth.
    scale = min(cam.focal / distance * 1.1, 3 * max(photo.size) / max(2 * b.half, b.height))
    if abs(cam.place[0]) > b.width / 2:
        hand = 1 if s.angle > 0 else -1
        corner = (hand * b.width / 2, b.wall_height + 0.3, 0.0 if hand > 0 else b.depth)
        paste_plane(photo, side(b, light, scale, rng), cam, corner, (0.0, 0.0, hand), scale)
    flat = front(b, light, scale, _shade(s), rng)
    paste_plane(photo, flat, cam, (-b.half, b.height, 0.0), (1.0, 0.0, 0.0), scale)


def _develop(photo: Image.Image, s: Scene, rng: np.random.Generator) -> Image.Image:
    if s.blur > 0.3:
        photo = photo.filter(ImageFilter.GaussianBlur(s.blur * math.sqrt(max(photo.size) / 320)))
    values = np.asarray(photo).astype(np.float32)
    y, x = (np.linspace(-1, 1, n, dtype=np.float32) ** 2 for n in values.shape[:2])
    fall = 1 - np.float32(s.vignette / 2) * (y[:, None] + x[None, :])
    grain = (rng.random(values.shape[:2], dtype=np.float32) - 0.5) * np.float32(s.noise * 3.4)
    balance = np.array((1 + s.warmth, 1.0, 1 - s.warmth), dtype=np.float32)
    values *= balance * np.float32(s.exposure * s.contrast)
    values += np.float32(128 * s.exposure * (1 - s.contrast))
    values *= fall[..., None]
    values += grain[..., None]
    return Image.fromarray(np.clip(values, 0, 255, out=values).astype(np.uint8))


def render(b: Building, s: Scene, size: tuple[int, int]) -> Image.Image:
    """The photo, an RGB picture of `size` (width, height)."""
    rng = np.random.default_rng(s.clutter)
    cam = aim_camera(b, s, size)
    # Polygons have hard edges, so they are drawn twice as large and averaged.
    twice, large = cam.enlarged(2), (size[0] * 2, size[1] * 2)
    canvas = empty_world(s, twice, large, rng)
    paint_behind(Easel(canvas, ImageDraw.Draw(canvas), twice, s, rng), b)
    photo = canvas.reduce(2)
    _building(photo, b, s, cam, rng)
    if s.occluders:
        layer = Image.new("RGBA", large)
        paint_before(Easel(layer, ImageDraw.Draw(layer), twice, s, rng), b)
        layer = layer.reduce(2)
        photo.paste(layer, (0, 0), layer)
    return _develop(photo, s, rng)
