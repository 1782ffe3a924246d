"""Two photos side by side, with lines between what matches."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from solar.errors import SolarError
from solar.images import Source, load
from solar.images.opencv import opencv
from solar.matching.match import Matches, verdict
from solar.show.colours import INK, PAPER, SOFT, short, wide, write

_FINE = 4  # bits after the point in the coordinates of lines


def draw_matches(
    a: Source, b: Source, found: Sequence[Matches], *, height: int = 480, most: int = 100
) -> Image.Image:
    """Draw the inliers found by `solar.match` with one or several models, one row per model.

    Photos not verified as the same scene get no lines: their inliers agree by chance. Lines that
    start close to each other have similar colours, so that outliers show. Photos are scaled to
    `height` pixels; at most `most` lines are drawn, spread over the photo.
    """
    if not found:
        raise SolarError("There are no matches to draw.")
    left, right = (_scaled(photo, height) for photo in (a, b))
    text = max(14, height // 30)
    rows = [_row(left, right, matches, text, most) for matches in found]
    return stack_rows(rows, text)


def stack_rows(rows: Sequence[Image.Image], margin: int) -> Image.Image:
    """Rows of one size below each other, with a margin around each."""
    step = rows[0].height + margin
    picture = Image.new("RGB", (rows[0].width + 2 * margin, len(rows) * step + margin), PAPER)
    for number, row in enumerate(rows):
        picture.paste(row, (margin, margin + number * step))
    return picture


def caption(matches: Matches) -> tuple[str, str]:
    """The name of the descriptor, and its result."""
    inliers, first, second = int(matches.inliers.sum()), *matches.keypoints
    name = Path(matches.descriptor).name.removesuffix(".safetensors")
    return name, (
        f"{verdict(inliers, matches.threshold)} ({matches.geometry}, {len(matches.pairs):,} "
        f"matches, {first:,} and {second:,} keypoints)"
    )


def _row(
    left: tuple[Image.Image, float],
    right: tuple[Image.Image, float],
    matches: Matches,
    text: int,
    most: int,
) -> Image.Image:
    gap, top = text // 2, 2 * text
    width = left[0].width + gap + right[0].width
    row = Image.new("RGB", (width, top + left[0].height), PAPER)
    row.paste(pale(left[0]), (0, top))
    row.paste(pale(right[0]), (left[0].width + gap, top))
    name, result = caption(matches)
    if not matches.same_scene:
        agree = f"{matches.inliers.sum()} of {len(matches.pairs)} matches agree"
        result = f"nothing to draw: {agree}, {matches.threshold} are needed"
    name = short(name, max(width // 3, 1), text)
    write(row, (0, text // 4), name, text, INK)
    room = width - wide(name, text) - text
    write(row, (wide(name, text) + text, text // 4), short(result, room, text), text, SOFT)
    if not matches.same_scene:
        return row
    pairs = matches.pairs[matches.inliers]
    starts = _places(matches.points_a[pairs[:, 0]], left[1], (0, top))
    ends = _places(matches.points_b[pairs[:, 1]], right[1], (left[0].width + gap, top))
    chosen = _spread(starts, most)
    return draw_lines(row, starts[chosen], ends[chosen], max(2, left[0].height // 160))


def draw_lines(
    row: Image.Image, starts: NDArray[np.float64], ends: NDArray[np.float64], radius: int
) -> Image.Image:
    """Draw lines (n, 2) to (n, 2) in pixels, with a dot of this radius at each end."""
    cv2 = opencv()
    canvas = np.array(row)
    under = canvas.copy()
    colours = _colours(starts)
    places = [np.round(points * 2**_FINE).astype(int).tolist() for points in (starts, ends)]
    for start, end, colour in zip(*places, colours, strict=True):
        cv2.line(under, start, end, colour, 1, cv2.LINE_AA, _FINE)
    canvas = cv2.addWeighted(under, 0.8, canvas, 0.2, 0)
    for points in places:
        for point, colour in zip(points, colours, strict=True):
            cv2.circle(canvas, point, (radius + 1) << _FINE, INK, -1, cv2.LINE_AA, _FINE)
            cv2.circle(canvas, point, radius << _FINE, colour, -1, cv2.LINE_AA, _FINE)
    return Image.fromarray(canvas)


def _scaled(photo: Source, height: int) -> tuple[Image.Image, float]:
    loaded = load(photo, None)
    scale = height / loaded.height
    image = Image.fromarray(loaded.pixels)
    width = max(1, round(loaded.width * scale))
    return image.resize((width, height), Image.Resampling.LANCZOS), scale


def pale(photo: Image.Image) -> Image.Image:
    """Half grey and a little darker, for coloured lines to stand out."""
    grey = photo.convert("L").convert("RGB")
    return Image.blend(Image.blend(photo, grey, 0.6), Image.new("RGB", photo.size), 0.15)


def _places(points: NDArray[Any], scale: float, corner: tuple[int, int]) -> NDArray[np.float64]:
    return (np.asarray(points, np.float64) + 0.5) * scale - 0.5 + corner


def _spread(points: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Farthest-point sampling: the first point, then always the one farthest from those taken."""
    if len(points) <= most:
        return np.arange(len(points))
    chosen = [0]
    distance = np.full(len(points), np.inf)
    while len(chosen) < most:
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(distance.argmax()))
    return np.array(chosen)


def _colours(points: NDArray[np.float64]) -> list[tuple[int, int, int]]:
    """A hue for the place across, a brightness for the place down, among the points."""
    low, high = points.min(axis=0), points.max(axis=0)
    across, down = ((points - low) / np.maximum(high - low, 1)).T
    phases = across[:, None] * 0.8 + np.array([0, 2 / 3, 1 / 3])
    rgb = (np.abs(phases % 1 * 6 - 3) - 1).clip(0, 1)
    rgb = (0.25 + 0.75 * rgb) * (1 - 0.3 * down[:, None])
    return [(int(red), int(green), int(blue)) for red, green, blue in (255 * rgb).round()]
