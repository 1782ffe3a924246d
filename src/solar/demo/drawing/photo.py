"""From a building and a scene to the finished photo."""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from solar.demo.drawing.camera import Camera, aim_camera, paste_plane
from solar.demo.drawing.facade import front, side
from solar.demo.drawing.surroundings import Easel, empty_world, paint_before, paint_behind
from solar.demo.drawing.world import LIGHTS, Building, Scene


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
