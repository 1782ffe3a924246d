"""Ground truth of ILIAS, and of any set of objects to find among many photos.

The release has lists in `image_ids/` (`image_query_ids.txt` and `positive_ids.txt`, the latter with
scale and clutter) and photos in `ilias_core/OBJECT/query/` and `ilias_core/OBJECT/pos/`. Your own
set is a CSV of `query,positive`, with `scale` and `clutter` of the positive if they are known.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from solar.datasets.labelled.photo_labels import read_columns, read_rows
from solar.errors import SolarError

_LISTS = "image_ids"
_PHOTOS = "ilias_core"


@dataclass(frozen=True)
class ObjectTruth:
    """Which photos of a database show what a query shows."""

    path: Path  # what it was read from
    root: Path  # the folder of the photos
    queries: tuple[str, ...]  # their names
    database: tuple[str, ...]  # names of all photos that are right for some query
    right: tuple[npt.NDArray[np.int64], ...]  # for each query positions in the database
    # For each photo of the database which share of it the object takes up, and how much else is in
    # it; None where the set does not say.
    scale: npt.NDArray[np.float64] | None = None
    clutter: npt.NDArray[np.float64] | None = None


def read_objects(path: str | Path, root: str | Path | None = None) -> ObjectTruth:
    """Read the release of ILIAS from its folder, or your own CSV.

    `root` is the folder of the photos; default: `ilias_core/` in the release, or the CSV's own. In
    the release, queries and database are sorted by name; in a CSV in order of appearance.
    """
    path = Path(path)
    return _release(path, root) if path.is_dir() else _own(path, root)


def _release(folder: Path, root: str | Path | None) -> ObjectTruth:
    lists = folder / _LISTS
    if not lists.is_dir():
        raise SolarError(f"{folder} holds no {_LISTS}/: fetch it, or give a CSV of query,positive.")
    listed = lists / "positive_ids.txt"
    facts: dict[str, tuple[float, float]] = {}
    for number, row in read_rows(listed):
        if len(row) != 3:
            raise SolarError(f"Line {number} of {listed} is not a photo, scale and clutter.")
        facts[row[0]] = _number(row[1], number, listed), _number(row[2], number, listed)
    queries = sorted(row[0] for _, row in read_rows(lists / "image_query_ids.txt"))
    if not (facts and queries):
        raise SolarError(f"{lists} names no photo.")
    database = sorted(facts)
    members: dict[str, list[int]] = {}  # of an object, the first folder in a name
    for row_number, name in enumerate(database):
        members.setdefault(name.partition("/")[0], []).append(row_number)
    right = tuple(np.array(members.get(name.partition("/")[0], ()), np.int64) for name in queries)
    values = np.array([facts[name] for name in database])
    home = folder / _PHOTOS if (folder / _PHOTOS).is_dir() else folder
    where = home if root is None else Path(root)
    return ObjectTruth(folder, where, (*queries,), (*database,), right, values[:, 0], values[:, 1])


def _own(path: Path, root: str | Path | None) -> ObjectTruth:
    facts = ("scale", "clutter")
    columns = {name: [name] for name in ("query", "positive", *facts)}
    values: dict[str, dict[str, float]] = {}
    database: dict[str, int] = {}
    asked: dict[str, list[int]] = {}
    for number, cells in read_columns(path, columns, facts):
        if not (cells["query"] and cells["positive"]):
            raise SolarError(f"Line {number} of {path} is not a query and a positive photo.")
        photo = cells["positive"]
        place = database.setdefault(photo, len(database))
        if place in asked.setdefault(cells["query"], []):
            raise SolarError(f"Line {number} of {path} names {photo} again for {cells['query']}.")
        asked[cells["query"]].append(place)
        for key in facts:
            if key in cells:
                values.setdefault(key, {})[photo] = _number(cells[key], number, path)
    if not asked:
        raise SolarError(f"{path} names no query.")
    arrays = {key: np.array([known[name] for name in database]) for key, known in values.items()}
    return ObjectTruth(
        path,
        path.parent if root is None else Path(root),
        (*asked,),
        (*database,),
        tuple(np.array(own, np.int64) for own in asked.values()),
        arrays.get("scale"),
        arrays.get("clutter"),
    )


def _number(text: str, line: int, path: Path) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise SolarError(f"Line {line} of {path} has {text!r} where a number belongs.")
    return value
