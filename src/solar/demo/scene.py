"""Photos of toy buildings: viewpoint, light, what is around the building, and the camera."""

import math

import numpy as np
from PIL import Image, ImageFilter

from solar.arrays import Doubles
from solar.demo.building import DARK, GLASS, PAINTS, Building, Dice, front, side
from solar.demo.sheet import Camera, Colour, Light, Part, Sheet, box, disc, paste

LIGHTS: dict[str, Light] = {
    "day": Light((62, 128, 206), (200, 224, 240), (1.12, 1.1, 1.06), shadow=0.42, lit=0.0),
    "morning": Light((116, 168, 218), (252, 228, 196), (1.16, 1.06, 0.92), shadow=0.45, lit=0.03),
    "overcast": Light((150, 160, 172), (212, 216, 220), (0.9, 0.93, 0.96), shadow=0.12, lit=0.12),
    "dusk": Light((76, 78, 140), (252, 166, 108), (0.98, 0.74, 0.68), shadow=0.3, lit=0.4),
    "night": Light((16, 24, 58), (62, 72, 118), (0.66, 0.63, 0.7), shadow=0.2, lit=0.7),
}
_GROUNDS: tuple[Colour, ...] = ((122, 150, 84), (168, 160, 148), (196, 182, 150), (112, 112, 116))
# What stands around buildings, as wide as it is high: its height in metres, and its parts.
_THINGS: dict[str, tuple[float, list[Part]]] = {
    "tree": (8.0, [("dark", 1.4, [(-0.03, 0), (0.03, 0), (0.02, 0.5), (-0.02, 0.5)])]),
    "person": (
        1.75,
        [("dark", 1, [(-0.07, 0.5), (0.07, 0.5), (0.12, 0), (0.05, 0), (0, 0.4), (-0.1, 0)]),
         ("paint", 1, [(-0.08, 0.84), (0.08, 0.84), (0.12, 0.44), (-0.12, 0.44)]),
         ("skin", 1, disc(0, 0.92, 0.075))],
    ),
    "car": (
        1.5,
        [("paint", 0.85, [(-0.95, 0.58), (0.92, 0.58), (0.5, 1), (-0.65, 1)]),
         ("glass", 1, [(-0.8, 0.58), (0.78, 0.58), (0.45, 0.94), (-0.58, 0.94)]),
         ("paint", 1, [(-1.5, 0.12), (1.5, 0.12), (1.4, 0.62), (-1.4, 0.62)]),
         *(("dark", 0.8, disc(x, 0.18, 0.22)) for x in (-0.87, 0.87))],
    ),
    "fir": (
        7.0,
        [("dark", 1.4, box(-0.02, 0, 0.02, 0.2)),
         *(("paint", 0.8 + y, [(0.57 * y - 0.32, y), (0.32 - 0.57 * y, y), (0, y + 0.38)])
           for y in (0.12, 0.28, 0.44, 0.6))],
    ),
}  # fmt: skip
_GREEN = ("tree", "fir")


class Scene:
    """What changes from one photo of a landmark to the next."""

    def __init__(self, dice: Dice):
        near = dice.between(0, 1) < 0.2
        self.hour = dice.pick(("day", "day", "day", "morning", "overcast", "dusk", "night"))
        self.light = LIGHTS[self.hour]
        # Degrees; positive when the camera stands to the right of the building.
        self.angle = dice.between(-52, 52)
        self.eye = dice.between(*dice.pick(((1.5, 3), (1.5, 3), (1.5, 3), (4, 14))))
        self.roll = dice.between(-5, 5)
        # How much of the picture the building fills.
        self.zoom = dice.between(1.15, 1.6) if near else dice.between(0.7, 1.08)
        # What the camera points at, from the middle, in building sizes.
        self.aim = dice.between(-0.25, 0.25), dice.between(-0.06, 0.08)
        self.lens = dice.between(0.75, 1.3)  # focal length, in longer sides of the picture
        self.sun = dice.between(-1, 1)  # from the left … from the right
        self.cast = dice.between(-0.6, 0.6)  # where a shadow ends on the front; below 0 for none
        self.clouds = dice.between(0.2, 0.6)
        self.haze = dice.between(0.1, 0.6)
        self.ground = dice.vary(dice.pick(_GROUNDS), 10)
        self.road = dice.between(4, 9)  # metres from the front
        self.exposure = dice.between(0.86, 1.14)
        self.warmth = dice.between(-0.07, 0.07)
        self.blur = dice.between(0.0, 0.9)
        self.noise = dice.between(0.5, 4.5)
        self.clutter = dice.pick(range(2**31))  # seeds neighbours, trees, clouds, lamps and noise


def aim_camera(b: Building, s: Scene, size: tuple[int, int]) -> Camera:
    """The camera that lets the building fill `s.zoom` of the picture."""
    width, height = size
    focal, turn, roll = s.lens * max(size), math.radians(s.angle), math.radians(s.roll)
    fit = max(2 * b.half / width, b.height / height)
    distance = max(focal * fit / s.zoom, b.half * 1.25)
    place = np.array((distance * math.sin(turn), s.eye, -distance * math.cos(turn)))
    ahead = np.array((s.aim[0] * b.half, b.height * (0.46 + s.aim[1]), 0)) - place
    ahead /= np.linalg.norm(ahead)
    level = _level(ahead)
    upright = np.cross(ahead, level)
    right = math.cos(roll) * level + math.sin(roll) * upright
    down = math.sin(roll) * level - math.cos(roll) * upright
    lens = np.array(((focal, 0, width / 2), (0, focal, height / 2), (0, 0, 1)))
    return Camera(place, lens @ np.stack((right, down, ahead)), focal)


def _level(ahead: Doubles) -> Doubles:
    """The horizontal unit vector to the right of a line of sight."""
    return np.array((ahead[2], 0, -ahead[0])) / math.hypot(ahead[0], ahead[2])


def _sky_and_ground(
    b: Building, s: Scene, cam: Camera, size: tuple[int, int], dice: Dice
) -> Image.Image:
    """Sky with clouds; road, pavement, a path and the building's shadow on the ground."""
    light, (w, h) = s.light, (size[0] // 2 + 1, size[1] // 2 + 1)  # soft anyway
    zenith, horizon, cloud, ground = (
        np.array(colour, np.float32)
        for colour in (light.zenith, light.horizon, light.on((225, 226, 230)), light.on(s.ground))
    )
    u, v = np.meshgrid(np.arange(w) * size[0] / w, np.arange(h) * size[1] / h)
    rays = np.stack([u, v, np.ones_like(u)], axis=-1) @ np.linalg.inv(cam.matrix).T
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    rise = rays[..., 1:2].astype(np.float32)
    grids = ((7, 5), (16, 11), (36, 24))
    puffs = [Image.fromarray(dice.rng.random(grid, dtype=np.float32)) for grid in grids]
    noise = np.mean([np.asarray(puff.resize((w, h))) for puff in puffs], axis=0)[..., None]
    sky = horizon + (zenith - horizon) * np.clip(rise * 1.6, 0, 1) ** np.float32(0.7)
    sky += (cloud - sky) * np.clip((noise - 1 + 0.9 * s.clouds) * 5, 0, 0.9)
    near = np.clip(-rise * 3, 0, 1) * np.float32(0.45) + np.float32(0.55)
    land = (horizon + (ground - horizon) * near) * (0.95 + 0.1 * noise)
    x, _, z = (cam.place + rays * (cam.place[1] / np.maximum(-rise, 1e-4))).transpose(2, 0, 1)
    road, paved = np.abs(z + s.road + 3), (192, 184, 172)
    plot = (np.abs(x) < b.half + 3) & (z > -2.4) & (z < b.depth)
    for where, colour, tone in (
        (road < 4.5, (206, 202, 194), 1),
        (road < 3, (98, 98, 104), 1),
        ((road < 0.15) & (x % 5 < 2.4), (230, 226, 214), 1),
        (plot | ((np.abs(x) < b.door_width) & (z > -s.road) & (z < 0)), paved, 1),
        (plot & (np.abs(x + s.sun * 0.7 * z) < b.width / 2), paved, 1 - light.shadow),
    ):
        land[where] = light.on(colour, tone)
    world = np.clip(np.where(rise > 0, sky, land), 0, 255).astype(np.uint8)
    return Image.fromarray(world).resize(size)


def _leaves(dice: Dice) -> list[Part]:
    parts = list[Part]()
    for turn, out, tone in dice.rng.random((40, 3)).tolist():
        x, y = disc(0, 0, math.sqrt(out), turn=360 * turn, n=1)[1]
        leaf = disc(0.3 * x, 0.64 + 0.27 * y, 0.05 + 0.05 * tone, n=10)
        parts.append(("paint", 0.65 + 0.5 * tone, leaf))
    return parts


def _stand(
    photo: Image.Image, s: Scene, cam: Camera, dice: Dice, kind: str, x: float, z: float
) -> None:
    """Something that faces the camera."""
    usual, parts = _THINGS[kind]
    leaves = _leaves(dice) if kind == "tree" else []
    colours = {
        "paint": dice.vary((78, 120, 58) if kind in _GREEN else dice.pick(PAINTS), 24),
        "skin": dice.pick(((236, 200, 170), (190, 140, 104), (120, 82, 60))),
        "dark": DARK,
        "glass": GLASS,
    }
    height = usual * dice.between(0.7, 1.2)
    half, depth = 1.6 * height, max(1.0, cam.see((x, 0, z))[2])
    scale = min(cam.focal / depth * 1.1, max(photo.size) / height)
    sheet = Sheet(-half, 2 * half, height, scale, s.light)
    sheet.parts([*parts, *leaves], colours, 0, 0, height, height)
    across = _level(cam.matrix[2])
    paste(photo, sheet.picture(), scale, cam, np.array((x, height, z)) - half * across, across)


def _shade(s: Scene) -> Image.Image:
    """How much light each part of the front gets: a slope, a cast shadow, floodlights at night."""
    y, x = np.mgrid[0:1:32j, 0:1:32j].astype(np.float32)
    shade = 0.75 + 0.25 * y if s.hour == "night" else 0.92 + 0.08 * s.sun * (2 * x - 1) - 0.04 * y
    if s.cast >= 0:
        edge = s.cast + math.copysign(0.5, s.sun) * (y - 0.5)
        inside = x < edge if s.sun > 0 else x > 1 - edge
        shade = np.where(inside, shade * (1 - s.light.shadow), shade)
    return Image.fromarray(np.clip(shade * 255, 0, 255).astype(np.uint8))


def _buildings(photo: Image.Image, b: Building, s: Scene, cam: Camera, dice: Dice) -> None:
    """The landmark, and plain houses and trees around it."""
    # Drawn about as large as it is seen, so that the warp neither blurs nor skips pixels; the
    # limit keeps close-ups of big buildings from costing more than the photo is worth.
    scale = cam.focal / math.hypot(cam.place[0], cam.place[2]) * 1.1
    scale = min(scale, 3 * max(photo.size) / max(2 * b.half, b.height))
    for hand in (-1, 1):
        picture = side(Building(dice), s.light, scale * 0.8, dice, haze=s.haze * 0.6)
        high = b.height * dice.between(0.3, 0.65)
        shrunk = picture.height / high
        left = hand * (b.half + b.depth * 0.25 + dice.between(1, 9))
        corner = (left - (picture.width / shrunk if hand < 0 else 0), high, dice.between(4, 14))
        paste(photo, picture, shrunk, cam, corner, (1, 0, 0))
    for _ in range(dice.pick(range(7))):
        x, z = dice.between(-2.5, 2.5) * b.half, dice.between(3, 15)
        _stand(photo, s, cam, dice, dice.pick(_GREEN), x, z)
    hand = 1 if s.angle > 0 else -1
    edge = hand * b.width / 2
    if b.roof in ("gable", "mansard"):
        # The slope of the roof above the side wall, which the flat front cannot show.
        down = np.array((edge * (1 if b.roof == "gable" else 0.1), -b.roof_height * 0.96, 0))
        length = float(np.linalg.norm(down))
        size = math.ceil(b.depth * scale), math.ceil(length * scale)
        slope = Image.new("RGB", size, s.light.on(b.colours["tiles"], 0.62)).convert("RGBA")
        ridge = (edge - down[0], b.wall_height - down[1], 0)
        paste(photo, slope, scale, cam, ridge, (0, 0, 1), down / length)
    if abs(cam.place[0]) > b.width / 2:
        corner = (edge, b.wall_height + 0.3, 0 if hand > 0 else b.depth)
        paste(photo, side(b, s.light, scale, dice), scale, cam, corner, (0, 0, hand))
    flat = front(b, s.light, scale, _shade(s), dice)
    paste(photo, flat, scale, cam, (-b.half, b.height, 0), (1, 0, 0))


def _develop(photo: Image.Image, s: Scene, dice: Dice) -> Image.Image:
    if s.blur > 0.3:
        photo = photo.filter(ImageFilter.GaussianBlur(s.blur * math.sqrt(max(photo.size) / 320)))
    balance = np.array((1 + s.warmth, 1, 1 - s.warmth), np.float32) * np.float32(s.exposure)
    grain = (dice.rng.random(photo.size[::-1], dtype=np.float32) - 0.5) * np.float32(s.noise * 3.4)
    values = np.asarray(photo) * balance + grain[..., None]
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def render(b: Building, s: Scene, size: tuple[int, int]) -> Image.Image:
    """The photo, an RGB picture of `size` (width, height)."""
    dice, cam = Dice(s.clutter), aim_camera(b, s, size)
    photo = _sky_and_ground(b, s, cam, size, dice)
    _buildings(photo, b, s, cam, dice)
    # Passers-by, far ones first: 0.1 to 0.6 of the way from the front to the camera.
    for near in sorted(dice.between(0.1, 0.6) for _ in range(dice.pick(range(5)))):
        kind = dice.pick((*_THINGS, "person", "person", "car"))
        near = min(near, 0.3) if kind in _GREEN else near
        x = b.half * 1.3 * dice.between(-1, 1) * (1 - near) + cam.place[0] * near
        _stand(photo, s, cam, dice, kind, x, cam.place[2] * near)
    return _develop(photo, s, dice)
