"""The pinhole camera, and flat pictures as it sees them.

The world is left-handed: x to the right, y up, z into the picture, the front in the plane z = 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from PIL import Image

from solar.demo.drawing.world import Building, Scene

Vector = tuple[float, float, float]
NEAREST = 1.0  # metres; what is closer to the camera is cut off


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

    def depth(self, point: Vector) -> float:
        """Distance ahead in metres; negative behind the camera."""
        return _dot(self.ahead, _minus(point, self.place))

    def see(self, point: Vector) -> tuple[float, float]:
        """The place in the picture of a point in front of the camera."""
        u, v, z = self.homogeneous(_minus(point, self.place))
        return u / z, v / z

    def outline(self, corners: Sequence[Vector]) -> list[tuple[float, float]]:
        """A polygon as it is seen, cut off a metre before the camera; empty if all behind."""
        seen = [self.homogeneous(_minus(p, self.place)) for p in corners]
        kept = []
        for p, q in zip(seen, seen[1:] + seen[:1], strict=True):
            if p[2] >= NEAREST:
                kept.append((p[0] / p[2], p[1] / p[2]))
            if (p[2] >= NEAREST) != (q[2] >= NEAREST):
                t = (NEAREST - p[2]) / (q[2] - p[2])
                u, v = (p[i] + t * (q[i] - p[i]) for i in (0, 1))
                kept.append((u / NEAREST, v / NEAREST))
        return kept

    def horizon(self) -> tuple[tuple[float, float], float]:
        """A point of the horizon, and its slope in the picture."""
        x, _, z = self.ahead
        left, right = ((x - k * z, 0.0, z + k * x) for k in (0.3, -0.3))
        (u0, v0, w0), (u1, v1, w1) = self.homogeneous(left), self.homogeneous(right)
        start = (u0 / w0, v0 / w0)
        return start, (v1 / w1 - start[1]) / (u1 / w1 - start[0])

    def enlarged(self, k: float) -> Camera:
        """The same camera with `k` times as many pixels per side."""
        return replace(self, focal=self.focal * k, centre=(self.centre[0] * k, self.centre[1] * k))


def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def aim_camera(b: Building, s: Scene, size: tuple[int, int]) -> Camera:
    """The camera that lets the building fill `s.zoom` of the picture."""
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


def paste_plane(
    photo: Image.Image, flat: Image.Image, cam: Camera, corner: Vector, across: Vector, scale: float
) -> None:
    """Put a flat vertical picture into the world of a photo, as a camera sees it.

    The upper left corner of `flat`, an RGBA picture with `scale` pixels per metre, is at `corner`;
    `across` is the unit vector from its left to its right.
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
