"""Read training sets and labelled places in any of their forms; write those of `solar data build`.

`solar data build` writes landmarks and their photos, in JSON, one landmark per line:

    {"format": "solar training set", "version": 1, "sources": ["photos"], "least": 12,
     "landmarks": [
      {"name": "tower", "part": "train", "photos": ["tower/a.jpg", "tower/b.jpg"],
       "matches": [[0, 1, 57]]},
      …]}

`sources` are folders or tar shards, relative to the file. `matches`, where photos were compared,
are pairs of photos of the landmark and how many points agreed; those with `least` or more are
positives. Without `matches` all photos of a landmark are positives of each other.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from solar.datasets.labelled.photo_labels import labelled_photos
from solar.datasets.labelled.training_set import (
    Part,
    Places,
    Positives,
    TrainingSet,
    label_photos,
    missing_photos,
    present,
)
from solar.datasets.plain_pickle import read_plain_pickle
from solar.datasets.public.gldv2 import CLEAN_LIST, read_clean
from solar.errors import SolarError
from solar.files import reading, replacing
from solar.images import Photos, find_photos

FORMAT = "solar training set"
VERSION = 1


@dataclass(frozen=True)
class Landmark:
    """Photos that are said to show the same; `part` is `train` or `val`."""

    name: str
    photos: tuple[str, ...]  # their names in the sources, sorted
    part: str = "train"
    # Two of them, by their place in `photos`, and how many points agree; None: not compared.
    matches: tuple[tuple[int, int, int], ...] | None = None


@dataclass(frozen=True)
class TrainingFile:
    """The content of a file."""

    sources: tuple[Path, ...]  # folders and shards that the photos are in
    landmarks: tuple[Landmark, ...]  # by name
    least: int | None = None  # points that must agree for a pair to be positives

    def training_set(self, source: object, part: Part = "all") -> TrainingSet:
        """The photos of a part, with the positives that enough points agree on.

        A SolarError about `source` if a photo is missing or there is nothing to learn.
        """
        landmarks = [one for one in self.landmarks if part in ("all", one.part)]
        if not landmarks and part == "val":
            raise SolarError(
                f"{source} has no validation part: use `solar data build --val-fraction`."
            )
        names = [name for one in landmarks for name in one.photos]
        labels = [one.name for one in landmarks for _ in one.photos]
        photos = Photos(tuple(names), self._places(names, source))
        if self.least is None:
            return label_photos(photos, labels, source)
        partners: dict[int, list[int]] = {}
        first = 0
        for one in landmarks:
            for a, b, count in one.matches or ():
                if count >= self.least:
                    partners.setdefault(first + a, []).append(first + b)
                    partners.setdefault(first + b, []).append(first + a)
            first += len(one.photos)
        if not partners:
            raise SolarError(f"No photos of {source} match in {self.least} points: lower `least=`.")
        sizes = [len(one.photos) for one in landmarks]
        queries = sorted(partners)
        found = TrainingSet(
            photos,
            np.repeat(np.arange(len(landmarks)), sizes).astype(np.int64),
            tuple(one.name for one in landmarks),
            np.array(queries, np.int64),
            Positives.of(sorted(partners[query]) for query in queries),
        )
        return found.checked(source)

    def _places(self, names: list[str], source: object) -> tuple[Path | tuple[Path, int, int], ...]:
        if len(self.sources) == 1 and self.sources[0].suffix != ".tar":
            return tuple(self.sources[0] / name for name in names)
        found = find_photos(self.sources)
        places = dict(zip(found.names, found.places, strict=True))
        if gone := [name for name in names if name not in places]:
            raise missing_photos(source, gone, len(gone), len(names), "build it again")
        return tuple(places[name] for name in names)


def write_training_file(path: str | Path, content: TrainingFile) -> None:
    """Write the file, atomically."""
    folder = Path(path).absolute().parent
    head = {
        "format": FORMAT,
        "version": VERSION,
        "sources": [_relative(source, folder) for source in content.sources],
        "least": content.least,
    }
    lines = [json.dumps(_as_json(one), ensure_ascii=False) for one in content.landmarks]
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "landmarks": [\n')
        file.write(",\n".join(lines) + "\n]}\n")


def _relative(source: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(source, folder)).as_posix()
    except ValueError:  # on another drive
        return source.absolute().as_posix()


def _as_json(one: Landmark) -> dict[str, Any]:
    compared = {} if one.matches is None else {"matches": one.matches}
    return {"name": one.name, "part": one.part, "photos": one.photos, **compared}


def read_training_file(path: str | Path, *, root: str | Path | None = None) -> TrainingFile:
    """Read what `write_training_file` wrote; `root` stands in for the sources that it names."""
    path = Path(path)
    with reading(path, "is not JSON, or is damaged", ValueError, RecursionError):
        content = json.loads(path.read_bytes())
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise SolarError(f"{path} is not a training set: make one with `solar data build`.")
    if content.get("version") != VERSION:
        version = content.get("version")
        raise SolarError(f"{path} has version {version}, not {VERSION}: build it again.")
    try:
        landmarks = tuple(_landmark(one) for one in content["landmarks"])
        sources = tuple(path.parent / source for source in content["sources"])
        least = None if content["least"] is None else int(content["least"])
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise SolarError(f"{path} is a damaged training set: build it again.") from error
    read = TrainingFile(sources, landmarks, least)
    return read if root is None else replace(read, sources=(Path(root),))


def _landmark(one: dict[str, Any]) -> Landmark:
    photos = tuple(map(str, one["photos"]))
    matches = one.get("matches")
    if matches is not None:
        matches = tuple((int(a), int(b), int(count)) for a, b, count in matches)
        if not all(0 <= a < b < len(photos) for a, b, _ in matches):
            raise ValueError("no such photo")
    return Landmark(str(one["name"]), photos, str(one["part"]), matches)


def sfm_path(cid: str) -> str:
    """Where a photo of retrieval-SfM is: spread over folders by the end of its name."""
    return f"ims/{cid[-2:]}/{cid[-4:-2]}/{cid[-6:-4]}/{cid}"


def read_training_pickle(
    path: str | Path, *, root: str | Path | None = None, part: str = "train"
) -> TrainingSet:
    """Read one part of a published database, or of `gl18.write_gl18`, with its own positives.

    `root` is the folder with `jpg/` (Google Landmarks) or `ims/` (retrieval-SfM); default: the
    pickle's own.
    """
    folder = Path(path).parent if root is None else Path(root)
    database = _read_part(path, part)
    reconstructed = "sfm" in Path(path).name.lower() or (folder / "ims").is_dir()
    places = (sfm_path(cid) if reconstructed else f"jpg/{cid}.jpg" for cid in database["cids"])
    shown, landmarks = np.unique(np.array(database["cluster"], np.str_), return_inverse=True)
    queries = np.asarray(database["qidxs"], np.int64)
    order = np.argsort(queries, kind="stable")
    found = TrainingSet(
        Photos.in_folder(folder, places),
        landmarks.astype(np.int64),
        tuple(shown.tolist()),
        queries[order],
        Positives.of(database["pidxs"])[order],
    )
    return found.checked(path)


def _read_part(path: str | Path, part: str) -> dict[str, list[Any]]:
    """`cids`, `cluster`, `qidxs`, `pidxs` (a list for each query), and the rest."""
    content = read_plain_pickle(path)
    if part not in ("train", "val"):
        raise SolarError(f"{path} has the parts train and val, not {part}.")
    found = content.get(part) if isinstance(content, dict) else None
    if not isinstance(found, dict) or not all(
        isinstance(found.get(key), list) for key in ("cids", "cluster", "qidxs", "pidxs")
    ):
        raise SolarError(f"{path} is not a database of photos: its {part} lacks cids, "
        "cluster, qidxs or pidxs.")  # fmt: skip
    positives = [[one] if isinstance(one, int) else one for one in found["pidxs"]]
    photos = len(found["cids"])
    fits = len(found["cluster"]) == photos and len(found["qidxs"]) == len(positives)
    numbers = [*found["qidxs"], *(number for one in positives for number in one)] if fits else [-1]
    if not all(isinstance(number, int) and 0 <= number < photos for number in numbers):
        raise SolarError(f"{path} is damaged: its {part} names photos that it does not have.")
    return {**found, "pidxs": positives}


def holds_out(path: str | Path) -> bool:
    """Whether a file has photos to validate on: its part `val`, with a query or more."""
    path = Path(path)
    if path.suffix.lower() == ".json":
        return any(one.part == "val" for one in read_training_file(path).landmarks)
    if path.suffix.lower() != ".pkl":
        return False
    content = read_plain_pickle(path)
    part = content.get("val") if isinstance(content, dict) else None
    return isinstance(part, dict) and bool(part.get("qidxs"))


def read_training_set(
    source: str | Path | Sequence[str | Path],
    *,
    root: str | Path | None = None,
    part: Part = "train",
    missing: Literal["refuse", "drop"] = "refuse",
    drop_unverified: bool = False,
) -> TrainingSet:
    """Read photos, their labels and positives.

    Args:
        source: A folder sorted as `landmark/photo.jpg`, at any depth; tar shards of the same; or
            several of these. Or one file: a CSV with the columns `path,landmark` (or
            `id,…,landmark_id`); JSON written by `solar data build`; `db_gl18.pkl`;
            `retrieval-SfM-120k.pkl`.
        root: The folder that photos named in a file are relative to; the file's own if not given.
        part: Of a file that holds out a part for validation: `train`, `val`, or for JSON `all`.
        missing: `drop` leaves out photos that a file names and that are not there.
        drop_unverified: Leave out photos that match no other of their landmark, where they were
            compared.
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
    if kind in (".json", ".pkl", ".csv"):
        found = present(found, shown, missing)
    return found.verified(shown) if drop_unverified else found


def places_in(source: str | Path | Sequence[str | Path], **options: Any) -> Places:
    """Read photos and the place each shows.

    The source is a folder of Google Landmarks v2 (with `train_clean.csv` and
    `train/a/b/c/abc….jpg`), or what `read_training_set` takes, like the options.
    """
    parts = [Path(source)] if isinstance(source, str | Path) else [Path(one) for one in source]
    folder = parts[0].parent if parts[0].name == CLEAN_LIST else parts[0]
    if len(parts) == 1 and (folder / CLEAN_LIST).is_file():
        return read_clean(folder, missing=options.get("missing", "refuse"))
    known = read_training_set(parts, **options)
    return Places(known.photos, known.landmarks, known.labels)
