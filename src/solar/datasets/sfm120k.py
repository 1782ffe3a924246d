"""Retrieval-SfM-120k and -30k: photos whose positives were found by reconstructing the scene."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar.datasets.gl18 import database_set, read_database
from solar.datasets.plain_pickle import read_plain_pickle
from solar.datasets.training_set import Numbers, TrainingSet
from solar.errors import SolarError
from solar.images import Photos


@dataclass(frozen=True)
class WhiteningPairs:
    """Pairs of photos that show the same, to learn a whitening from.

    Attributes:
        photos: What is described.
        queries: (n,) numbers of photos.
        positives: (n,) numbers of photos, each showing what its query shows.
    """

    photos: Photos
    queries: Numbers
    positives: Numbers


def photo_path(cid: str) -> str:
    """Where a photo is: spread over folders by the end of its name, which has no ending."""
    return f"ims/{cid[-2:]}/{cid[-4:-2]}/{cid[-6:-4]}/{cid}"


def _photos(cids: Sequence[str], path: str | Path, root: str | Path | None) -> Photos:
    folder = Path(path).parent if root is None else Path(root)
    return Photos.in_folder(folder, map(photo_path, cids))


def read_sfm(
    path: str | Path, *, root: str | Path | None = None, part: str = "train"
) -> TrainingSet:
    """Read `retrieval-SfM-120k.pkl` or `-30k.pkl`.

    Args:
        path: The pickle; nothing in it is executed.
        root: The folder with `ims/`; the pickle's own if not given.
        part: `train` or `val`.

    Raises:
        SolarError: The file cannot be read, or is no such database.
    """
    database = read_database(path, part=part)
    return database_set(database, _photos(database["cids"], path, root), path)


def read_whitening(path: str | Path, *, root: str | Path | None = None) -> WhiteningPairs:
    """Read `retrieval-SfM-120k-whiten.pkl` or `-30k-whiten.pkl`.

    Raises:
        SolarError: The file cannot be read, or has no pairs of photos.
    """
    content = read_plain_pickle(path)
    try:
        photos = _photos([str(cid) for cid in content["cids"]], path, root)
        queries = np.asarray(content["qidxs"], np.int64)
        positives = np.asarray(content["pidxs"], np.int64).reshape(len(queries))
    except (KeyError, TypeError, ValueError) as error:
        raise SolarError(f"{path} has no pairs to learn a whitening from: it needs cids, and "
                         "qidxs and pidxs of the same length.") from error  # fmt: skip
    both = np.concatenate([queries, positives])
    if not len(both) or both.min() < 0 or both.max() >= len(photos):
        raise SolarError(f"{path} is damaged: it pairs photos that it does not have.")
    return WhiteningPairs(photos, queries, positives)
