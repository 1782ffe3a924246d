"""Photos of places and distractors that benchmarks search, and their descriptors."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images import load
from solar.images.sources import Photos
from solar.index import Index
from solar.storage.types import DescriptorSpec

SIZE = 384  # of photos for a model, as on the model cards
TEACHER_SIZE = 224


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


def descriptors(
    photos: Photos, model: str | None, teacher: Path | None, cache: Path | None
) -> Vectors:
    """Unit rows (n, d), from the cache where it has them."""
    if cache and cache.exists():
        kept: Vectors = np.load(cache, allow_pickle=False)
        if len(kept) != len(photos):
            raise SolarError(f"{cache} holds {len(kept)} descriptors for {len(photos)} photos.")
        return kept
    describe = _taught(teacher) if teacher else _modelled(str(model))
    start = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # set OMP_NUM_THREADS=1: a photo a core
        rows = pool.map(lambda row: describe(photos.read(row)), range(len(photos)))
        vectors = np.concatenate(list(rows))
    print(f"described {len(photos)} photos in {time.perf_counter() - start:.0f} s", flush=True)
    if cache:
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


def _modelled(name: str) -> Callable[[Path | bytes], Vectors]:
    from solar.models import retrieval_model

    return partial(retrieval_model(name).describe, size=SIZE)


def _taught(path: Path) -> Callable[[Path | bytes], Vectors]:
    """GeM (p = 3) of the teacher's map, at one scale."""
    import torch

    from solar.models.retrieval_config import IMAGENET_MEAN, IMAGENET_STD
    from solar.nn import GeM

    if not path.is_file():
        raise SolarError(f"There is no file {path}.")
    network: Any = torch.jit.load(path).eval()  # type: ignore[no-untyped-call]
    pool, mean, std = GeM(), torch.tensor(IMAGENET_MEAN), torch.tensor(IMAGENET_STD)

    def describe(photo: Path | bytes) -> Vectors:
        pixels = torch.from_numpy(load(photo, TEACHER_SIZE).pixels)
        x = ((pixels / 255 - mean) / std).permute(2, 0, 1)[None]
        if (short := min(x.shape[2:])) < 64:  # panoramas, too narrow for the teacher's last layers
            x = torch.nn.functional.interpolate(x, scale_factor=64 / short, mode="bilinear")
        with torch.inference_mode():
            pooled = pool(network(x))
            vector: Vectors = torch.nn.functional.normalize(pooled).numpy()
        return vector

    return describe
