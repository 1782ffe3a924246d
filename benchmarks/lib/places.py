"""Photos of places and distractors that benchmarks search, and their descriptors."""

import tempfile
import time
from pathlib import Path

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images.sources import Photos
from solar.index import Index
from solar.index.build import fill
from solar.storage.types import DescriptorSpec

SIZE = 384  # of photos for a model, as on the model cards


def shards(places: str) -> tuple[str, ...]:
    """Where the photos of places and the distractors are, below the folder of the data.

    `places` is landmarks or buildings, or train for the landmarks to learn from.
    """
    learnt = tuple(f"landmarks/train-{number}.tar" for number in range(3))
    photos = learnt if places == "train" else (f"{places}/val-0.tar",)
    return (*photos, "landmarks/distractors-0.tar")


def labels_of(photos: Photos) -> list[str]:
    """What every photo shows: its place, or nothing for a distractor."""
    parts = [name.split("/") for name in photos.names]
    return [part[1] if part[0] in ("val", "train") else "" for part in parts]


def descriptors(photos: Photos, model: str, cache: Path | None) -> Vectors:
    """Unit rows (n, d), from the cache where it has them."""
    if cache and cache.exists():
        kept: Vectors = np.load(cache, allow_pickle=False)
        if len(kept) != len(photos):
            raise SolarError(f"{cache} holds {len(kept)} descriptors for {len(photos)} photos.")
        return kept
    start = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        fill(Path(folder, "i.solar"), photos, model=model, size=SIZE) as index,
    ):
        rows = dict(zip(index.paths, np.asarray(index.vectors), strict=True))
    vectors = np.stack([rows[name] for name in photos.names])
    print(f"described {len(photos)} photos in {time.perf_counter() - start:.0f} s", flush=True)
    if cache:
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.save(cache, vectors)
    return vectors


def searchable(
    photos: Photos, vectors: Vectors, model: str, folder: Path, features: Path | None = None
) -> Index:
    """An index of photos by vectors that are there already, in an empty folder.

    Without a model's name it has no probabilities. Local features found before are taken from
    `features`, and new ones are kept there.
    """
    from solar.models import fingerprint, retrieval_model

    known = fingerprint(retrieval_model(model)) if model else ""
    spec = DescriptorSpec(vectors.shape[1], model, known)
    folder.mkdir(exist_ok=True)
    index = Index.create(folder / "i.solar", vectors, photos.names, spec=spec, roots=photos.roots)
    if features is not None:
        features.mkdir(parents=True, exist_ok=True)
        (folder / "i.solar" / "local").symlink_to(features.resolve())
    return index
