"""Roofs for walls and caps for towers: each stands on the line from (x0, y) to (x1, y)."""

from collections.abc import Callable

from solar.demo.drawing.pen import Pen, arc, opening
from solar.demo.drawing.world import DARK, Building


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


ROOFS: dict[str, Callable[[Pen, Building, float, float, float, float], None]] = {
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
