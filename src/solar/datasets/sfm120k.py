"""Retrieval-SfM-120k and -30k: photos whose positives were found by reconstructing the scene."""

from pathlib import Path

from solar.datasets.gl18 import database_set, read_database
from solar.datasets.training_set import TrainingSet
from solar.images import Photos


def photo_path(cid: str) -> str:
    """Where a photo is: spread over folders by the end of its name, which has no ending."""
    return f"ims/{cid[-2:]}/{cid[-4:-2]}/{cid[-6:-4]}/{cid}"


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
    folder = Path(path).parent if root is None else Path(root)
    database = read_database(path, part=part)
    photos = Photos.in_folder(folder, map(photo_path, database["cids"]))
    return database_set(database, photos, path)
