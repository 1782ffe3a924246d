"""Regions of photos for regional ASMK: a detector's boxes, read from a file, or a grid.

A CSV file has a heading and one box per line, in pixels of the upright photo:

    path,x1,y1,x2,y2,score
    rome/12.jpg,41,30,280,201,0.93

A JSON file holds the same as a list, or the boxes of every photo by its path:

    [{"path": "rome/12.jpg", "box": [41, 30, 280, 201], "score": 0.93}]
    {"rome/12.jpg": [[41, 30, 280, 201]]}

Boxes with a score below 0.1 are left out, as published; scores are optional.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import Floats
from solar.errors import SolarError
from solar.files import reading
from solar.images.boxes import Box, parse_box, pixel_box
from solar.local.features import LocalFeatures

GRID = "grid"
LEAST_SCORE = 0.1

_COLUMNS = ("x1", "y1", "x2", "y2")


@dataclass(frozen=True)
class PhotoRegions:
    """Which regions photos have, beside the whole of each.

    Attributes:
        boxes: Those of each photo, by its path; None for a grid.
        source: The file that they came from.
    """

    boxes: Mapping[str, Sequence[Box]] | None = None
    source: str = GRID

    @property
    def kind(self) -> str:
        """`grid` or `boxes`."""
        return GRID if self.boxes is None else "boxes"

    def refuse_unknown(self, names: Collection[str]) -> None:
        """A SolarError if there are boxes of photos that are not among the names."""
        missing = sorted(set(self.boxes or ()) - set(names))
        if missing:
            more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
            raise SolarError(
                f"{self.source} has regions of {missing[0]}{more}, which is not among the photos: "
                "write paths as they are in the index."
            )

    def of(self, name: str, width: int, height: int) -> list[Box]:
        """The boxes of a photo, clipped to it; a SolarError if one lies outside."""
        if self.boxes is None:
            return list(grid(width, height))
        try:
            return [pixel_box(box, width, height) for box in self.boxes.get(name, ())]
        except SolarError as error:
            raise SolarError(f"{self.source}, {name}: {error}") from error

    def descriptors(self, name: str, features: LocalFeatures) -> list[Floats]:
        """The descriptors in each region of a photo, those of the whole photo first."""
        height, width = features.shape
        x, y = (features.points + 0.5).T
        inside = [
            (x >= x1) & (y >= y1) & (x <= x2) & (y <= y2)
            for x1, y1, x2, y2 in self.of(name, width, height)
        ]
        return [features.descriptors, *(features.descriptors[mask] for mask in inside)]


def read_regions(source: str | Path) -> PhotoRegions:
    """The regions of `grid`, or of a CSV or JSON file (see the top of this module).

    A SolarError names the first line or entry that is wrong.
    """
    if str(source) == GRID:
        return PhotoRegions()
    path = Path(source)
    entries = _json_entries(path) if path.suffix.lower() == ".json" else _csv_entries(path)
    boxes: dict[str, list[Box]] = defaultdict(list)
    for where, name, edges, score in entries:
        if not isinstance(name, str) or not name:
            raise SolarError(f"{path}, {where}: a region needs the path of its photo.")
        if not isinstance(edges, list | tuple):
            raise SolarError(f"{path}, {where}: a box must be four numbers x1, y1, x2, y2.")
        try:
            box = parse_box(",".join(str(edge) for edge in edges))
        except SolarError as error:
            raise SolarError(f"{path}, {where}: {error}") from error
        kept = boxes[name]  # an entry also for a photo whose boxes are all left out
        if _score(score, f"{path}, {where}") >= LEAST_SCORE:
            kept.append(box)
    return PhotoRegions(dict(boxes), str(path))


def grid(width: int, height: int) -> Iterator[Box]:
    """Thirteen boxes: 2 × 2 of two thirds of each side, and 3 × 3 of half, evenly spread."""
    for count in (2, 3):
        share = 2 / (count + 1)
        starts = np.linspace(0, 1 - share, count).tolist()
        for top in starts:
            for left in starts:
                right, bottom = (left + share) * width, (top + share) * height
                yield left * width, top * height, right, bottom


def _score(given: Any, where: str) -> float:
    try:
        score = 1.0 if given in (None, "") else float(given)
    except (TypeError, ValueError):
        score = math.nan
    if math.isnan(score):
        raise SolarError(f"{where}: the score {given!r} is not a number.")
    return score


_Entry = tuple[str, Any, Any, Any]
"""Line or entry, the photo's path, the box, the score or None."""


def _csv_entries(path: Path) -> Iterator[_Entry]:
    with (
        reading(path, "is not a CSV file in UTF-8", UnicodeDecodeError, csv.Error),
        path.open(newline="", encoding="utf-8-sig") as file,
    ):
        lines = csv.DictReader(file)
        if not {"path", *_COLUMNS} <= set(lines.fieldnames or ()):
            raise SolarError(f"{path} has no heading path,x1,y1,x2,y2: write it as the first line.")
        for line in lines:
            box = [line[column] for column in _COLUMNS]
            yield f"line {lines.line_num}", line["path"], box, line.get("score")


def _json_entries(path: Path) -> Iterable[_Entry]:
    with reading(path, "is not JSON", ValueError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(content, dict) and all(isinstance(boxes, list) for boxes in content.values()):
        return [
            (f"box {number} of {name}", name, box, None)
            for name, boxes in content.items()
            for number, box in enumerate(boxes, 1)
        ]
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise SolarError(
            f'{path} holds no regions: write [{{"path": "a.jpg", "box": [41, 30, 280, 201]}}] or '
            '{"a.jpg": [[41, 30, 280, 201]]}.'
        )
    return [
        (f"entry {number}", one.get("path"), one.get("box"), one.get("score"))
        for number, one in enumerate(content, 1)
    ]
