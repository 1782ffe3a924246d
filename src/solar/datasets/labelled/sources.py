"""Reads training sets and labelled places, in any of the forms they come in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from solar.datasets.labelled.file import read_training_file, read_training_pickle
from solar.datasets.labelled.photo_labels import labelled_photos
from solar.datasets.labelled.places import Places
from solar.datasets.labelled.training_set import Part, TrainingSet, label_photos, present
from solar.datasets.public.gldv2 import CLEAN_LIST, read_clean
from solar.errors import SolarError

__all__ = ["Part", "TrainingSet", "read_training_set"]


def read_training_set(
    source: str | Path | Sequence[str | Path],
    *,
    root: str | Path | None = None,
    part: Part = "train",
    missing: Literal["refuse", "drop"] = "refuse",
) -> TrainingSet:
    """Read photos and what they show, in any of the forms they come in.

    Args:
        source: A folder sorted as `landmark/photo.jpg`, at any depth; tar shards of the same,
            which are read where they are; or several of these. Or one file: a CSV with the columns
            `path,landmark` (or `id,…,landmark_id`); JSON written by `solar data build`;
            `db_gl18.pkl`; `retrieval-SfM-120k.pkl`.
        root: The folder that photos named in a file are relative to; the file's own if not given.
        part: Of a file that holds out a part for validation: `train`, `val`, or for JSON `all`.
        missing: `drop` leaves out photos that a file names and that are not there.

    Raises:
        SolarError: There is no such thing, it has no labels, one landmark only, no two photos that
            show the same, or photos that are not there.
    """
    parts = [Path(source)] if isinstance(source, str | Path) else [Path(one) for one in source]
    shown = ", ".join(str(one) for one in parts)
    kind = parts[0].suffix.lower() if len(parts) == 1 else ""
    if part == "val" and kind not in (".json", ".pkl"):
        raise SolarError(f"{shown} has no validation part: use `solar data build --val-fraction`.")
    if kind == ".json":
        found = read_training_file(parts[0], root=root).training_set(shown, part)
    elif kind == ".pkl":
        found = read_training_pickle(parts[0], root=root, part=part)
    else:
        photos, labels = labelled_photos(parts, root)
        found = label_photos(photos, labels, shown)
    # What a walk through a folder has just found is there; what a file names may not be.
    return present(found, shown, missing) if kind in (".json", ".pkl", ".csv") else found


def places_in(
    source: str | Path | Sequence[str | Path],
    *,
    root: str | Path | None = None,
    part: Part = "train",
    missing: Literal["refuse", "drop"] = "refuse",
    drop_unverified: bool = False,
) -> Places:
    """Read photos and the place each shows.

    Args:
        source: A folder of Google Landmarks v2 (with `train_clean.csv` and `train/a/b/c/abc….jpg`),
            or whatever `read_training_set` takes: a folder sorted as
            `place/photo.jpg`, tar shards, a CSV, JSON written by `solar data build`, or a
            published .pkl.
        root: The folder that photos named in a file are relative to; the file's own if not given.
        part: Of a file that holds out a part for validation.
        missing: `drop` leaves out photos that a file names and that are not there.
        drop_unverified: Leave out photos that agree with no other of their place, where they were
            compared.

    Raises:
        SolarError: There is no such thing, it has no labels, or shows fewer than two places.
    """
    sources = [Path(source)] if isinstance(source, str | Path) else [Path(one) for one in source]
    folder = sources[0].parent if sources[0].name == CLEAN_LIST else sources[0]
    if len(sources) == 1 and (folder / CLEAN_LIST).is_file():
        return read_clean(folder, missing=missing)
    known = read_training_set(sources, root=root, part=part, missing=missing)
    if drop_unverified:
        known = known.verified(", ".join(map(str, sources)))
    return Places(known.photos, known.landmarks, known.labels)
