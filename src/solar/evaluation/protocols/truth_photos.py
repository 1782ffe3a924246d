"""Find the ground truth of a set and the photos that it names."""

import os
from collections.abc import Mapping
from pathlib import Path

from solar.datasets.public.registry import GROUND_TRUTHS
from solar.datasets.public.revisited import (
    GroundTruth,
    find_ground_truth,
    locate_photos,
    photo_folders,
    read_ground_truth,
)
from solar.errors import SolarError
from solar.evaluation.described_photos import refuse_index
from solar.evaluation.settings import EvaluationSettings
from solar.images import Box, Photos

_TRUTH_FILES = {".json", ".pkl"}


def find_truth(what: str | Path, settings: EvaluationSettings) -> GroundTruth | None:
    """The ground truth of a set; None for labelled photos.

    A SolarError if it cannot be read, or the set is an index.
    """
    name, given = os.fspath(what), settings.ground_truth
    if name in GROUND_TRUTHS:
        if given is None and settings.root is None:
            raise SolarError(f"Say where {name} is: `root=`, or `ground_truth=` and `features=`.")
        return read_ground_truth(given or find_ground_truth(name, settings.root or ""), name)
    if given is None and Path(name).suffix.lower() in _TRUTH_FILES:
        given = name
    if given is None:
        refuse_index(Path(name))
        return None
    return read_ground_truth(given)


def truth_photos(
    what: str, truth: GroundTruth, root: str | Path | None
) -> tuple[Photos, Photos, Mapping[str, Box]]:
    """The database, the queries, and the boxes of these; a SolarError if a photo is missing."""
    folders = photo_folders(
        what if what in GROUND_TRUTHS else "", truth.path.parent if root is None else root
    )
    database = locate_photos(truth.database, folders)
    asked = locate_photos(list(dict.fromkeys(query.photo for query in truth.queries)), folders)
    places = dict(zip(asked.names, asked.places, strict=True))
    # Two queries may be parts of one photo, so a query's name needs its number.
    names = tuple(f"{number}/{query.photo}" for number, query in enumerate(truth.queries))
    queries = Photos(names, tuple(places[query.photo] for query in truth.queries))
    boxes = {n: q.box for n, q in zip(names, truth.queries, strict=True) if q.box is not None}
    return database, queries, boxes
