"""Published training sets: pickles of Google Landmarks 2018 and retrieval-SfM-120k or -30k."""

from pathlib import Path
from typing import Any

import numpy as np

from solar.datasets.plain_pickle import read_plain_pickle
from solar.datasets.training_set import Positives, TrainingSet, checked
from solar.errors import SolarError
from solar.images import Photos


def sfm_path(cid: str) -> str:
    """Where a photo of retrieval-SfM is: spread over folders by the end of its name."""
    return f"ims/{cid[-2:]}/{cid[-4:-2]}/{cid[-6:-4]}/{cid}"


def read_training_pickle(
    path: str | Path, *, root: str | Path | None = None, part: str = "train"
) -> TrainingSet:
    """Read one part of a published database, or of `gl18.write_gl18`, with its own positives.

    The folder with `jpg/` (Google Landmarks) or `ims/` (retrieval-SfM) is the pickle's own if no
    root is given. Nothing in a pickle is executed.

    Raises:
        SolarError: The file cannot be read, is no such database, contradicts itself, or there is
            nothing to learn from.
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
    return checked(found, path)


def _read_part(path: str | Path, part: str) -> dict[str, list[Any]]:
    """`cids`, `cluster`, `qidxs`, `pidxs` (a list for each query), and what else there is."""
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
