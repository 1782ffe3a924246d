"""The photo of a toy building: camera, sky, surroundings, passers-by, and the camera's faults.

The world is left-handed: x to the right, y up, z into the picture, the façade in the plane z = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from solar.datasets.toy_facade import Building, Colour, Light, front, side

Vector = tuple[float, float, float]

LIGHTS: dict[str, Light] = {
    "day": Light((74, 134, 205), (196, 220, 238), (250, 250, 250), (1.0, 0.99, 0.96), 0.45, 0.0,
                 (92, 116, 140)),
    "morning": Light((120, 166, 214), (250, 226, 196), (255, 240, 226), (1.04, 0.96, 0.84), 0.5, 0.03,
                     (110, 120, 132)),
    "overcast": Light((158, 166, 176), (206, 210, 214), (226, 228, 230), (0.83, 0.86, 0.89), 0.12, 0.1,
                      (84, 92, 100)),
    "dusk": Light((72, 74, 132), (250, 160, 104), (240, 150, 140), (0.86, 0.64, 0.6), 0.3, 0.4,
                  (88, 70, 92)),
    "night": Light((12, 18, 44), (48, 56, 96), (50, 56, 84), (0.4, 0.42, 0.58), 0.2, 0.55,
                   (22, 28, 50)),
}  # fmt: skip


@dataclass(frozen=True)
class Occluder:
    """Something between the camera and the building."""

    kind: str
    along: float  # -1 … 1 over the width of the picture
    near: float  # of the way from the façade to the camera
    size: float  # of its usual height
    colour: Colour


@dataclass(frozen=True)
class Scene:
    """All that changes from one photo of a landmark to the next."""

    light: str
    angle: float  # degrees; positive when the camera stands to the right of the building
    eye: float  # metres above the ground
    roll: float  # degrees
    zoom: float  # how much of the picture the building fills
    aim: tuple[float, float]  # what the camera points at, from the middle, in building sizes
    lens: float  # focal length, in longer sides of the picture
    sun: float  # -1 from the left … 1 from the right
    cast: float  # where a neighbour's shadow ends on the façade; below 0 for none
    clouds: float
    haze: float
    ground: Colour
    occluders: tuple[Occluder, ...]
    exposure: float
    warmth: float
    contrast: float
    vignette: float
    blur: float
    noise: float
    quality: int  # of the JPEG
    clutter: int  # seeds skyline, neighbours, trees, clouds, lamps and noise


@dataclass(frozen=True)
class Camera:
    """A pinhole; `right`, `up` and `ahead` are unit vectors."""

    place: Vector
    right: Vector
    up: Vector
    ahead: Vector
    focal: float
    centre: tuple[float, float]

    def homogeneous(self, v: Vector) -> Vector:
        """A direction's homogeneous picture coordinates."""
        x, y, z = _dot(self.right, v), _dot(self.up, v), _dot(self.ahead, v)
        return self.focal * x + self.centre[0] * z, -self.focal * y + self.centre[1] * z, z

    def see(self, point: Vector) -> tuple[float, float]:
        """Where a point of the world falls in the picture; points behind are pulled in front."""
        u, v, z = self.homogeneous(_minus(point, self.place))
        z = max(z, 1e-3)
        return u / z, v / z

    def enlarged(self, k: float) -> Camera:
        """The same camera with `k` times as many pixels a side."""
        return replace(
            self, focal=self.focal * k, centre=(self.centre[0] * k, self.centre[1] * k)
        )


def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def _mix(a: Colour, b: Colour, t: float) -> Colour:
    red, green, blue = (int(x + (y - x) * t) for x, y in zip(a, b, strict=True))
    return red, green, blue


def camera(b: Building, s: Scene, size: tuple[int, int]) -> Camera:
    """Where the photographer stands, so that the building fills `s.zoom` of the picture."""
    width, height = size
    focal = s.lens * max(size)
    fit = max(2 * b.half / width, b.height / height)
    distance = max(focal * fit / s.zoom, b.half * 1.25)
    turn = math.radians(s.angle)
    place = (distance * math.sin(turn), s.eye, -distance * math.cos(turn))
    target = (s.aim[0] * b.half, b.height * (0.46 + s.aim[1]), 0.0)
    dx, dy, dz = _minus(target, place)
    flat, long = math.hypot(dx, dz), math.sqrt(dx * dx + dy * dy + dz * dz)
    ahead = (dx / long, dy / long, dz / long)
    level = (dz / flat, 0.0, -dx / flat)
    upright = (
        ahead[1] * level[2] - ahead[2] * level[1],
        ahead[2] * level[0] - ahead[0] * level[2],
        ahead[0] * level[1] - ahead[1] * level[0],
    )
    c, n = math.cos(math.radians(s.roll)), math.sin(math.radians(s.roll))
    r, u = level, upright
    right = (c * r[0] + n * u[0], c * r[1] + n * u[1], c * r[2] + n * u[2])
    up = (c * u[0] - n * r[0], c * u[1] - n * r[1], c * u[2] - n * r[2])
    return Camera(place, right, up, ahead, focal, (width / 2, height / 2))


def _paste_plane(
    photo: Image.Image, flat: Image.Image, cam: Camera, corner: Vector, across: Vector, scale: float
) -> None:
    """Puts a flat vertical picture into the world.

    Args:
        photo: What is painted on.
        flat: An RGBA picture, `scale` pixels a metre.
        cam: Who looks.
        corner: Where the upper left corner of `flat` stands.
        across: The unit vector from its left to its right.
        scale: Pixels a metre.
    """
    wide, high = flat.width / scale, flat.height / scale
    reach = [(x, y) for x in (0.0, wide) for y in (0.0, high)]
    seen = [
        cam.see((corner[0] + across[0] * x, corner[1] - y, corner[2] + across[2] * x))
        for x, y in reach
    ]
    left, top = (max(0, math.floor(min(p[i] for p in seen))) for i in (0, 1))
    right = min(photo.width, math.ceil(max(p[0] for p in seen)))
    bottom = min(photo.height, math.ceil(max(p[1] for p in seen)))
    if right <= left or bottom <= top:
        return
    # Columns of the homography from flat pixels to photo pixels, the box's corner as the origin.
    a, b, c = (
        cam.homogeneous(v)
        for v in (
            (across[0] / scale, 0.0, across[2] / scale),
            (0.0, -1 / scale, 0.0),
            _minus(corner, cam.place),
        )
    )
    a, b, c = ((p[0] - left * p[2], p[1] - top * p[2], p[2]) for p in (a, b, c))
    # Pillow wants the way back; up to scale that is the adjugate, its rows being cross products.
    rows = [
        (q[1] * r[2] - q[2] * r[1], q[2] * r[0] - q[0] * r[2], q[0] * r[1] - q[1] * r[0])
        for q, r in ((b, c), (c, a), (a, b))
    ]
    back = [value / rows[2][2] for row in rows for value in row][:8]
    patch = flat.transform(
        (right - left, bottom - top), Image.Transform.PERSPECTIVE, back, Image.Resampling.BICUBIC
    )
    photo.paste(patch, (left, top), patch)


def _noise_field(rng: np.random.Generator, size: tuple[int, int], cells: tuple[int, int]) -> np.ndarray:
    """Smooth random values around 0 … 1, shape (height, width)."""
    grid = Image.fromarray(rng.random(cells[::-1], dtype=np.float32))
    return np.asarray(grid.resize(size, Image.Resampling.BICUBIC))


def _sky_and_ground(s: Scene, cam: Camera, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """The empty world: gradient sky with clouds and a sun or moon, ground below the horizon."""
    light = LIGHTS[s.light]
    w, h = max(2, size[0] // 6), max(2, size[1] // 6)
    (x0, y0), slope = _horizon(cam)
    k = w / size[0]
    ys, xs = np.mgrid[0:h, 0:w].astype(np.float32)
    above = ((y0 * k + (xs - x0 * k) * slope) - ys) / h
    t = np.clip(above * 1.3, 0, 1)[..., None] ** 0.7
    sky = np.float32(light.horizon) * (1 - t) + np.float32(light.zenith) * t
    puffs = 0.6 * _noise_field(rng, (w, h), (5, 8)) + 0.4 * _noise_field(rng, (w, h), (13, 20))
    cover = np.clip((puffs - (1 - s.clouds) * 0.9) * 4, 0, 0.9)[..., None]
    sky += (np.float32(light.cloud) - sky) * cover
    glow = np.exp(-((xs - w * (0.5 + 0.5 * s.sun)) ** 2 + (above * h - h * 0.2) ** 2) / (0.03 * w * h))
    sky += glow[..., None] * np.float32((70, 50, 24)) * (s.light in ("dusk", "morning", "day"))
    far = np.float32(_mix(light.on(s.ground), light.horizon, 0.45))
    t = np.clip(-above * 2.5, 0, 1)[..., None]
    land = far * (1 - t) + np.float32(light.on(s.ground)) * t
    land *= (0.9 + 0.2 * _noise_field(rng, (w, h), (9, 30)))[..., None]
    world = np.where(above[..., None] > 0, sky, land)
    picture = Image.fromarray(np.clip(world, 0, 255).astype(np.uint8))
    return picture.resize(size, Image.Resampling.BILINEAR)


def _horizon(cam: Camera) -> tuple[tuple[float, float], float]:
    """A point of the horizon, and its slope in the picture."""
    x, y, z = cam.place
    (u0, v0), (u1, v1) = (
        cam.see((x + 1e5 * (cam.ahead[0] + k * cam.ahead[2]), y, z + 1e5 * (cam.ahead[2] - k * cam.ahead[0])))
        for k in (-0.3, 0.3)
    )
    return (u0, v0), (v1 - v0) / (u1 - u0)


def _skyline(draw: ImageDraw.ImageDraw, s: Scene, cam: Camera, width: int, rng: np.random.Generator) -> None:
    """Far roofs along the horizon, pale with distance."""
    light = LIGHTS[s.light]
    (x0, y0), slope = _horizon(cam)
    for layer in (0.75, 0.5):
        x = -0.05 * width
        while x < width * 1.05:
            wide, high, kind, tone = rng.random(4).tolist()
            w, h = width * (0.03 + 0.07 * wide), width * (0.01 + 0.09 * high * high) * (1.6 - layer)
            base = y0 + (x + w / 2 - x0) * slope
            colour = _mix(light.on((90 + int(60 * tone), 96, 108)), light.horizon, layer)
            draw.rectangle((x, base - h, x + w, base + 3), colour)
            if kind < 0.3:
                draw.polygon([(x, base - h), (x + w, base - h), (x + w / 2, base - h * 1.5)], colour)
            elif kind < 0.4:
                draw.ellipse((x, base - h - w / 2, x + w, base - h + w / 2), colour)
            x += w * (0.8 + 0.6 * kind)


def _neighbour(draw: ImageDraw.ImageDraw, s: Scene, b: Building, cam: Camera, hand: int, rng: np.random.Generator) -> None:
    """A plain house beside the landmark, a few metres behind its front."""
    light = LIGHTS[s.light]
    gap, wide, high, back, tone, hue = rng.random(6).tolist()
    z, near = 4 + 10 * back, b.half + b.depth * 0.25 + 1 + 5 * gap
    w, h = 7 + 8 * wide, b.height * (0.3 + 0.35 * high)
    base = ((168, 150, 132), (150, 96, 80), (188, 184, 176), (120, 124, 132))[int(hue * 4)]
    wall = _mix(light.on(base, 0.7 + 0.3 * tone), light.horizon, s.haze * 0.6)

    def quad(x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        corners = ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
        draw.polygon([cam.see((hand * (near + x), y, z)) for x, y in corners], colour)

    quad(0, 0, w, h, wall)
    if tone < 0.6:
        peak = [(-0.4, h), (w + 0.4, h), (w * 0.75, h * 1.25), (w * 0.25, h * 1.25)]
        roof = _mix(light.on((112, 72, 60)), light.horizon, s.haze * 0.6)
        draw.polygon([cam.see((hand * (near + x), y, z)) for x, y in peak], roof)
    columns, rows = max(2, int(w / 2.6)), max(1, int(h / 3.2))
    for i in range(columns * rows):
        x, y = (i % columns + 0.28) * w / columns, (i // columns + 0.3) * h / rows
        glass = (250, 205, 130) if rng.random() < light.lit * 0.8 else light.glass
        quad(x, y, x + 0.42 * w / columns, y + 0.5 * h / rows, glass)


def _tree(draw: ImageDraw.ImageDraw, x: float, y: float, h: float, colour: Colour, light: Light, rng: np.random.Generator) -> None:
    """A tree whose trunk stands at (x, y), `h` pixels tall."""
    trunk = light.on((92, 70, 52))
    draw.polygon([(x - h * 0.035, y), (x + h * 0.035, y), (x + h * 0.018, y - h * 0.5), (x - h * 0.018, y - h * 0.5)], trunk)
    shape = rng.random()
    if shape < 0.25:
        for i in range(4):
            low, half = y - h * (0.12 + 0.2 * i), h * (0.24 - 0.05 * i)
            draw.polygon([(x - half, low), (x + half, low), (x, low - h * 0.32)], light.on(colour, 0.8 + 0.1 * i))
        return
    wide = 0.32 if shape < 0.8 else 0.13
    for i, (a, r, tone) in enumerate(rng.random((26, 3)).tolist()):
        turn, out = 2 * math.pi * a, math.sqrt(r)
        px, py = x + h * wide * out * math.cos(turn), y - h * (0.64 + 0.27 * out * math.sin(turn))
        radius = h * (0.07 + 0.06 * tone) * (0.6 + wide)
        shade = light.on(colour, 0.68 + 0.012 * i + 0.2 * tone)
        draw.ellipse((px - radius, py - radius, px + radius, py + radius), shade)


def _person(draw: ImageDraw.ImageDraw, x: float, y: float, h: float, colour: Colour, light: Light, rng: np.random.Generator) -> None:
    skin = ((236, 200, 170), (190, 140, 104), (120, 82, 60))[int(rng.random() * 3)]
    legs, step = light.on((52, 54, 70)), h * 0.09
    for foot in (-step, step):
        draw.polygon([(x - h * 0.07, y - h * 0.5), (x + h * 0.07, y - h * 0.5), (x + foot + h * 0.035, y), (x + foot - h * 0.035, y)], legs)
    draw.rounded_rectangle((x - h * 0.12, y - h * 0.84, x + h * 0.12, y - h * 0.44), h * 0.07, light.on(colour))
    draw.ellipse((x - h * 0.07, y - h, x + h * 0.07, y - h * 0.84), light.on(skin))


def _car(draw: ImageDraw.ImageDraw, x: float, y: float, h: float, colour: Colour, light: Light, rng: np.random.Generator) -> None:
    w = h * (1.5 if rng.random() < 0.75 else 1.9)
    draw.rounded_rectangle((x - w, y - h * 0.62, x + w, y - h * 0.12), h * 0.16, light.on(colour))
    cabin = [(x - w * 0.62, y - h * 0.58), (x + w * 0.6, y - h * 0.58), (x + w * 0.34, y - h), (x - w * 0.42, y - h)]
    draw.polygon(cabin, light.on(colour, 0.85))
    draw.polygon([(x + (px - x) * 0.84, y - h * 0.58 + (py - y + h * 0.58) * 0.8) for px, py in cabin], light.glass)
    for wheel in (-0.58, 0.58):
        for r, tone in ((0.22, 36), (0.1, 140)):
            cx, cy = x + w * wheel, y - h * 0.18
            draw.ellipse((cx - h * r, cy - h * r, cx + h * r, cy + h * r), light.on((tone, tone, tone)))
    if light.lit > 0.3:
        draw.ellipse((x + w * 0.9, y - h * 0.5, x + w * 1.02, y - h * 0.34), (255, 240, 190))


def _lamp(draw: ImageDraw.ImageDraw, x: float, y: float, h: float, colour: Colour, light: Light, rng: np.random.Generator) -> None:
    pole = light.on((54, 58, 62))
    draw.rectangle((x - h * 0.012, y - h, x + h * 0.012, y), pole)
    draw.rectangle((x - h * 0.03, y - h * 0.08, x + h * 0.03, y), pole)
    for hand in (-1, 1):
        cx, cy, r = x + hand * h * 0.08, y - h * 0.97, h * 0.032
        draw.line([(x, y - h * 0.9), (cx, cy)], pole, max(1, int(h * 0.012)))
        bulb = (255, 236, 180) if light.lit > 0.3 else light.on((226, 226, 216))
        draw.ellipse((cx - r, cy - r, cx + r, cy + r), bulb)


OCCLUDERS = {"tree": (_tree, 8.0), "person": (_person, 1.75), "car": (_car, 1.5), "lamp": (_lamp, 5.5)}


def _occlude(photo: Image.Image, b: Building, s: Scene, cam: Camera, rng: np.random.Generator) -> None:
    """People, cars, trees and lamps in front of the building, far ones first."""
    if not s.occluders:
        return
    layer = Image.new("RGBA", (photo.width * 2, photo.height * 2))
    draw, big = ImageDraw.Draw(layer), cam.enlarged(2)
    for thing in sorted(s.occluders, key=lambda o: o.near):
        paint, usual = OCCLUDERS[thing.kind]
        x = b.half * 1.3 * thing.along * (1 - thing.near) + cam.place[0] * thing.near
        place = (x, 0.0, cam.place[2] * thing.near)
        (u, v), (_, top) = big.see(place), big.see((place[0], usual * thing.size, place[2]))
        paint(draw, u, v, abs(v - top), thing.colour, LIGHTS[s.light], rng)
    small = layer.reduce(2)
    photo.paste(small, (0, 0), small)


def _backdrop(b: Building, s: Scene, cam: Camera, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """Everything behind the building, and the ground in front of it."""
    big, double = cam.enlarged(2), (size[0] * 2, size[1] * 2)
    picture = _sky_and_ground(s, big, double, rng)
    draw, light = ImageDraw.Draw(picture), LIGHTS[s.light]
    if s.light == "night":
        for x, y in rng.random((40, 2)).tolist():
            draw.point((x * double[0], y * double[1] * 0.6), (210, 214, 230))
    _skyline(draw, s, big, double[0], rng)
    for hand in (-1, 1):
        if rng.random() < 0.7:
            _neighbour(draw, s, b, big, hand, rng)
    for x, z, tall, tone in rng.random((int(rng.random() * 7), 4)).tolist():
        place = ((x - 0.5) * 5 * b.half, 0.0, 3 + 12 * z)
        (u, v), (_, top) = big.see(place), big.see((place[0], 4 + 5 * tall, place[2]))
        _tree(draw, u, v, abs(v - top), (58 + int(40 * tone), 104, 54), light, rng)
    _forecourt(draw, b, s, big)
    return picture.reduce(2)


def _forecourt(draw: ImageDraw.ImageDraw, b: Building, s: Scene, cam: Camera) -> None:
    """Pavement along the front, a path from the door, and the building's shadow on the ground."""
    light = LIGHTS[s.light]
    paved, reach = light.on((186, 180, 170)), -cam.place[2]

    def patch(colour: Colour, *corners: tuple[float, float]) -> None:
        draw.polygon([cam.see((x, 0.0, z)) for x, z in corners], colour)

    w, near = b.half + 1.5, -0.55 * reach
    patch(light.on((150, 146, 140)), (-w - 2, -2.6), (w + 2, -2.6), (w + 2, b.depth), (-w - 2, b.depth))
    patch(paved, (-w - 2, -2.4), (w + 2, -2.4), (w + 2, 0), (-w - 2, 0))
    patch(paved, (-b.door_width, 0), (b.door_width, 0), (b.door_width * 1.6, near), (-b.door_width * 1.6, near))
    lean, long = -s.sun * b.wall_height * 0.5, min(2.2, 0.2 * reach)
    if light.shadow > 0.2:
        half = b.width / 2
        patch(_mix(paved, (30, 32, 50), light.shadow), (-half, 0), (half, 0), (half + lean * 0.3, -long), (-half + lean * 0.3, -long))


def _shade(s: Scene) -> Image.Image:
    """What the sun leaves of the façade's brightness: a slope, a cast shadow, floodlights at night."""
    y, x = np.mgrid[0:1:32j, 0:1:32j].astype(np.float32)
    shade = 1 - 0.12 * (1 - s.sun * (2 * x - 1)) - 0.08 * y
    if s.light == "night":
        shade = 0.5 + 0.5 * y + 0 * x
    edge = s.cast + 0.5 * (y - 0.5) * (1 if s.sun > 0 else -1)
    inside = x < edge if s.sun > 0 else x > 1 - edge
    shade = np.where(inside & (s.cast >= 0), shade * (1 - LIGHTS[s.light].shadow), shade)
    return Image.fromarray(np.clip(shade * 255, 0, 255).astype(np.uint8))


def _develop(photo: Image.Image, s: Scene, rng: np.random.Generator) -> Image.Image:
    """Blur, haze, exposure, white balance, vignette and noise."""
    if s.blur > 0.3:
        photo = photo.filter(ImageFilter.GaussianBlur(s.blur * photo.width / 320))
    values = np.asarray(photo).astype(np.float32)
    h, w = values.shape[:2]
    gain = np.float32([1 + s.warmth, 1.0, 1 - s.warmth]) * np.float32(s.exposure * s.contrast)
    lift = np.float32(128 * s.exposure * (1 - s.contrast))
    y, x = np.linspace(-1, 1, h, dtype=np.float32) ** 2, np.linspace(-1, 1, w, dtype=np.float32) ** 2
    fall = 1 - np.float32(s.vignette) * (y[:, None] + x[None, :]) / 2
    grain = (rng.random((h, w), dtype=np.float32) - 0.5) * np.float32(s.noise * 3.4)
    values *= gain
    values += lift
    values *= fall[..., None]
    values += grain[..., None]
    np.clip(values, 0, 255, out=values)
    return Image.fromarray(values.astype(np.uint8))


def render(b: Building, s: Scene, size: tuple[int, int]) -> Image.Image:
    """The photo, an RGB picture of `size` (width, height)."""
    rng = np.random.default_rng(s.clutter)
    cam, light = camera(b, s, size), LIGHTS[s.light]
    photo = _backdrop(b, s, cam, size, rng)
    reach = math.hypot(cam.place[0], cam.place[2])
    # Drawn no larger than it will be seen, so that the bicubic warp never skips pixels.
    scale = min(cam.focal / reach * 1.1, 900 / max(2 * b.half, b.height))
    hand = 1 if s.angle > 0 else -1
    if abs(cam.place[0]) > b.width / 2:
        wall = side(b, light, scale, rng)
        start = (hand * b.width / 2, b.wall_height + 0.3, 0.0 if hand > 0 else b.depth)
        _paste_plane(photo, wall, cam, start, (0.0, 0.0, float(hand)), scale)
    flat = front(b, light, scale, _shade(s), rng)
    _paste_plane(photo, flat, cam, (-b.half, b.height, 0.0), (1.0, 0.0, 0.0), scale)
    _occlude(photo, b, s, cam, rng)
    return _develop(photo, s, rng)
