"""Everything around a toy building: sky, skyline, houses, trees, street, and passers-by."""

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from solar.arrays import Floats
from solar.demo.drawing.camera import NEAREST, Camera, Vector
from solar.demo.drawing.world import LIGHTS, Building, Colour, Light, Scene, mix


@dataclass(frozen=True)
class Easel:
    """A canvas with its camera, scene and random numbers."""

    canvas: Image.Image
    draw: ImageDraw.ImageDraw
    cam: Camera
    scene: Scene
    rng: np.random.Generator

    @property
    def light(self) -> Light:
        """The hour."""
        return LIGHTS[self.scene.light]

    def faded(self, colour: Colour, strength: float = 1.0) -> Colour:
        """The colour in this light, seen through the haze."""
        return mix(self.light.on(colour, strength), self.light.horizon, self.scene.haze * 0.6)

    def surface(self, colour: Colour, *corners: Vector) -> None:
        """A filled polygon of the world."""
        outline = self.cam.outline(corners)
        if len(outline) > 2:
            self.draw.polygon(outline, colour)

    def shape(self, colour: Colour, *points: tuple[float, float]) -> None:
        """A filled polygon of the picture."""
        self.draw.polygon(points, colour)

    def disc(self, x: float, y: float, r: float, colour: Colour) -> None:
        """A filled circle of the picture."""
        self.draw.ellipse((x - r, y - r, x + r, y + r), colour)


def _clouds(rng: np.random.Generator, size: tuple[int, int], *cells: tuple[int, int]) -> Floats:
    """Smooth noise of 0 … 1, shape (height, width), from up to three (columns, rows) grids."""
    total = np.zeros(size[::-1], dtype=np.float32)
    for n, (columns, rows) in enumerate(cells):
        grid = Image.fromarray(rng.random((rows, columns), dtype=np.float32))
        weight = np.float32((0.5, 0.3, 0.2)[n] if len(cells) > 1 else 1)
        total += weight * np.asarray(grid.resize(size, Image.Resampling.BICUBIC))
    return total


def empty_world(
    s: Scene, cam: Camera, size: tuple[int, int], rng: np.random.Generator
) -> Image.Image:
    """A gradient sky with clouds and a glow where the sun is, and the ground below the horizon."""
    light = LIGHTS[s.light]
    # Nothing here has edges, so a fifth of the resolution will do.
    small = w, h = max(2, size[0] // 5), max(2, size[1] // 5)
    zenith, horizon, cloud, ground = (
        np.array(c, dtype=np.float32)
        for c in (light.zenith, light.horizon, light.cloud, light.on(s.ground))
    )
    (x0, y0), slope = cam.horizon()
    k = w / size[0]
    ys, xs = np.mgrid[0:h, 0:w].astype(np.float32)
    above = ((y0 * k + (xs - x0 * k) * slope) - ys) / h
    height = np.clip(above * 1.3, 0, 1)[..., None] ** 0.7
    sky = horizon + (zenith - horizon) * height
    puffs = _clouds(rng, small, (5, 7), (11, 16), (24, 36))
    sky += (cloud - sky) * np.clip((puffs - (1 - s.clouds) * 0.9) * 4, 0, 0.9)[..., None]
    if light.shadow > 0.25:  # the sun is out
        off = (xs - w * (0.5 + 0.5 * s.sun)) ** 2 + (above * h - h * 0.2) ** 2
        sky += np.exp(-off / (0.03 * w * h))[..., None] * np.array((70, 50, 24), dtype=np.float32)
    near = np.clip(-above * 2.5, 0, 1)[..., None] * 0.45 + 0.55
    land = horizon + (ground - horizon) * near
    land *= 0.95 + 0.1 * _clouds(rng, small, (9, 30))[..., None]
    world = np.clip(np.where(above[..., None] > 0, sky, land), 0, 255)
    return Image.fromarray(world.astype(np.uint8)).resize(size, Image.Resampling.BILINEAR)


def _skyline(e: Easel) -> None:
    (x0, y0), slope = e.cam.horizon()
    width = e.canvas.width
    for layer in (0.75, 0.5):
        x = -0.05 * width
        while x < width * 1.05:
            wide, high, kind, tone = e.rng.random(4).tolist()
            w = width * (0.03 + 0.07 * wide)
            top = width * (0.01 + 0.09 * high * high) * (1.6 - layer)
            base = y0 + (x + w / 2 - x0) * slope
            colour = mix(e.light.on((90 + int(60 * tone), 96, 108)), e.light.horizon, layer)
            e.draw.rectangle((x, base - top, x + w, base + 3), colour)
            if kind < 0.3:
                e.shape(colour, (x, base - top), (x + w, base - top), (x + w / 2, base - top * 1.5))
            elif kind < 0.4:
                e.disc(x + w / 2, base - top, w / 2, colour)
            x += w * (0.8 + 0.6 * kind)


def _neighbour(e: Easel, b: Building, hand: int) -> None:
    """A plain house beside the landmark, a few metres behind its front."""
    gap, wide, high, back, tone, hue = e.rng.random(6).tolist()
    z, near = 4 + 10 * back, b.half + b.depth * 0.25 + 1 + 5 * gap
    w, h = 7 + 8 * wide, b.height * (0.3 + 0.35 * high)
    wall = ((168, 150, 132), (150, 96, 80), (188, 184, 176), (120, 124, 132))[int(hue * 4)]

    def at(colour: Colour, *corners: tuple[float, float]) -> None:
        e.surface(colour, *((hand * (near + x), y, z) for x, y in corners))

    at(e.faded(wall, 0.7 + 0.3 * tone), (0, 0), (w, 0), (w, h), (0, h))
    if tone < 0.6:
        peak = ((-0.4, h), (w + 0.4, h), (w * 0.75, h * 1.25), (w * 0.25, h * 1.25))
        at(e.faded((112, 72, 60)), *peak)
    columns, rows = max(2, int(w / 2.6)), max(1, int(h / 3.2))
    for i in range(columns * rows):
        x0, y0 = (i % columns + 0.28) * w / columns, (i // columns + 0.3) * h / rows
        x1, y1 = x0 + 0.42 * w / columns, y0 + 0.5 * h / rows
        glass = (250, 205, 130) if e.rng.random() < e.light.lit * 0.8 else e.light.glass
        at(glass, (x0, y0), (x1, y0), (x1, y1), (x0, y1))


def _street(e: Easel, b: Building) -> None:
    """Road, pavement, a path from the door, and the building's shadow on the ground."""
    light, road = e.light, e.scene.road
    paved = light.on((192, 184, 172))

    def strip(colour: Colour, x0: float, x1: float, near: float, far: float) -> None:
        e.surface(colour, (x0, 0, near), (x1, 0, near), (x1, 0, far), (x0, 0, far))

    if road:
        strip(light.on((206, 202, 194)), -300, 300, -road - 7.5, -road + 1.5)
        strip(light.on((98, 98, 104)), -300, 300, -road - 6, -road)
        for x in range(-40, 40, 5):
            strip(light.on((230, 226, 214)), x, x + 2.4, -road - 3.1, -road - 2.8)
    w, door, end = b.half + 3, b.door_width, -(road or 300)
    strip(light.on((150, 146, 140)), -w, w, -2.7, b.depth)
    strip(paved, -w, w, -2.4, b.depth)
    e.surface(paved, (-door, 0, 0), (door, 0, 0), (door * 1.5, 0, end), (-door * 1.5, 0, end))
    if light.shadow > 0.15:
        half, lean = b.width / 2, -e.scene.sun * 1.5
        dark = mix(paved, (30, 32, 50), light.shadow)
        tip = (half + lean, 0, -2.2), (-half + lean, 0, -2.2)
        e.surface(dark, (-half, 0, 0), (half, 0, 0), *tip)


def _roof_slope(e: Easel, b: Building) -> None:
    """The slope of the roof above the side wall, which the flat front cannot show."""
    slopes = {
        "gable": b.width / 2,
        "stepped": b.width / 2,
        "mansard": min(0.22 * b.width, 1.6),
        "sawtooth": b.width / 2 / max(1, b.bays // 2),
    }
    if b.roof not in slopes:
        return
    hand = 1 if e.scene.angle > 0 else -1
    eaves, ridge = hand * (b.width / 2 + 0.2), hand * (b.width / 2 - slopes[b.roof])
    low, high = b.wall_height, b.wall_height + b.roof_height * 0.96
    back = (eaves, low, b.depth), (ridge, high, b.depth)
    e.surface(e.light.on(b.tiles, 0.62), (eaves, low, 0), *back, (ridge, high, 0))


def _tree(e: Easel, x: float, y: float, h: float, colour: Colour) -> None:
    low, high = h * 0.035, h * 0.018
    trunk = (x - low, y), (x + low, y), (x + high, y - h * 0.5), (x - high, y - h * 0.5)
    e.shape(e.light.on((92, 70, 52)), *trunk)
    kind = e.rng.random()
    if kind < 0.25:  # a fir
        for i in range(4):
            foot, half = y - h * (0.12 + 0.2 * i), h * (0.24 - 0.05 * i)
            skirt = (x - half, foot), (x + half, foot), (x, foot - h * 0.32)
            e.shape(e.light.on(colour, 0.8 + 0.1 * i), *skirt)
        return
    spread = 0.32 if kind < 0.8 else 0.13
    for i, (turn, out, tone) in enumerate(e.rng.random((44, 3)).tolist()):
        angle, out = 2 * math.pi * turn, math.sqrt(out)
        px = x + h * spread * out * math.cos(angle)
        py = y - h * (0.64 + 0.27 * out * math.sin(angle))
        radius = h * (0.05 + 0.05 * tone) * (0.6 + spread)
        e.disc(px, py, radius, e.light.on(colour, 0.62 + 0.008 * i + 0.2 * tone))


def _person(e: Easel, x: float, y: float, h: float, colour: Colour) -> None:
    skin = ((236, 200, 170), (190, 140, 104), (120, 82, 60))[int(e.rng.random() * 3)]
    hip, waist = h * 0.07, y - h * 0.5
    for foot in (x - h * 0.09, x + h * 0.09):
        leg = (x - hip, waist), (x + hip, waist), (foot + hip / 2, y), (foot - hip / 2, y)
        e.shape(e.light.on((52, 54, 70)), *leg)
    coat = (x - h * 0.12, y - h * 0.84, x + h * 0.12, y - h * 0.44)
    e.draw.rounded_rectangle(coat, h * 0.07, e.light.on(colour))
    e.disc(x, y - h * 0.92, h * 0.075, e.light.on(skin))


def _car(e: Easel, x: float, y: float, h: float, colour: Colour) -> None:
    w = h * (1.5 if e.rng.random() < 0.75 else 1.9)
    body = (x - w, y - h * 0.62, x + w, y - h * 0.12)
    e.draw.rounded_rectangle(body, h * 0.16, e.light.on(colour))
    for k, paint in ((1.0, e.light.on(colour, 0.85)), (0.84, e.light.glass)):
        sill, top = y - h * 0.58, y - h * (0.58 + 0.42 * k)
        cabin = (x - w * 0.62 * k, sill), (x + w * 0.6 * k, sill)
        e.shape(paint, *cabin, (x + w * 0.34 * k, top), (x - w * 0.42 * k, top))
    for wheel in (x - w * 0.58, x + w * 0.58):
        e.disc(wheel, y - h * 0.18, h * 0.22, e.light.on((36, 36, 38)))
        e.disc(wheel, y - h * 0.18, h * 0.1, e.light.on((140, 140, 144)))
    if e.light.lit > 0.3:
        e.disc(x + w * 0.95, y - h * 0.42, h * 0.09, (255, 240, 190))


def _lamp(e: Easel, x: float, y: float, h: float, colour: Colour) -> None:
    iron = mix(e.light.on((54, 58, 62)), e.light.on(colour), 0.15)
    e.draw.rectangle((x - h * 0.012, y - h, x + h * 0.012, y), iron)
    e.draw.rectangle((x - h * 0.03, y - h * 0.08, x + h * 0.03, y), iron)
    bulb = (255, 236, 180) if e.light.lit > 0.3 else e.light.on((226, 226, 216))
    for arm in (x - h * 0.08, x + h * 0.08):
        e.draw.line([(x, y - h * 0.9), (arm, y - h * 0.97)], iron, max(1, int(h * 0.012)))
        e.disc(arm, y - h * 0.97, h * 0.032, bulb)


# Painter and usual height in metres of each kind of occluder.
OCCLUDERS = {
    "tree": (_tree, 8.0),
    "person": (_person, 1.75),
    "car": (_car, 1.5),
    "lamp": (_lamp, 5.5),
}


def _stand(e: Easel, kind: str, x: float, z: float, size: float, colour: Colour) -> None:
    if e.cam.depth((x, 0, z)) < NEAREST:
        return
    paint, usual = OCCLUDERS[kind]
    (u, foot), (_, head) = e.cam.see((x, 0, z)), e.cam.see((x, usual * size, z))
    paint(e, u, foot, abs(foot - head), colour)


def paint_behind(e: Easel, b: Building) -> None:
    """Everything behind the building, and the ground that it stands on."""
    width, height = e.canvas.size
    if e.scene.light == "night":
        for x, y in e.rng.random((40, 2)).tolist():
            e.draw.point((x * width, y * height * 0.6), (210, 214, 230))
    _skyline(e)
    for hand in (-1, 1):
        if e.rng.random() < 0.7:
            _neighbour(e, b, hand)
    for x, z, tall, tone in e.rng.random((int(e.rng.random() * 7), 4)).tolist():
        green = (58 + int(40 * tone), 104, 54)
        _stand(e, "tree", (x - 0.5) * 5 * b.half, 3 + 12 * z, 0.5 + 0.6 * tall, green)
    _street(e, b)
    _roof_slope(e, b)


def paint_before(e: Easel, b: Building) -> None:
    """Occluders between the camera and the building, far ones first."""
    eye = e.cam.place
    for o in sorted(e.scene.occluders, key=lambda o: o.near):
        x = b.half * 1.3 * o.along * (1 - o.near) + eye[0] * o.near
        _stand(e, o.kind, x, eye[2] * o.near, o.size, o.colour)
