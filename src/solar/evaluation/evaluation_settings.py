"""How an evaluation is done: the options that `evaluate`, `sweep_p` and `rankings` share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypedDict

from solar.arrays import AnyFloats
from solar.describe.counting import Progress
from solar.describe.store import Store
from solar.errors import SolarError

Features: TypeAlias = str | Path | AnyFloats | Store
"""Descriptors: an array, a store, or a file that `read_vectors` takes."""


@dataclass(frozen=True)
class EvaluationSettings:
    """Everything but the set and the model.

    Attributes:
        root: The folder of the photos. For a named set, one that holds `jpg/` and the ground truth,
            or a folder of its name that does.
        ground_truth: The file, if it is not found in `root`.
        features: Descriptors of the database and of the queries, in the order of the ground truth,
            in place of a model.
        distractors: Photos or descriptors that are never right.
        size: Longest side of a photo; the model's own if not given.
        scales: Scales to average; the model's own if not given.
        cache: A folder in which descriptors are kept for the next time.
        average: `trapezoid`, the published average precision, or `finite`.
        precision: Of the fast product: `float64` (the default up to 65,536 rows), or `float32`. The
            ranks are the same.
        device: Where to compute scores (and, for a model that is not loaded yet, descriptors).
        progress: Called with the step, what is done, and the total.
        backend: What describes on a CPU, as for `solar.extract`.
        half: Round descriptors to float16, as a store of half the size does.
        asmk: Rank by ASMK* with these local features, as `AsmkSettings.local` takes them, in place
            of a model.
        codebook: For asmk: an index or a file whose visual words to take; learnt from the set's own
            photos if not given.
        regions: For asmk: `grid`, or a file of boxes in the photos of the database (regional
            ASMK*); distractors are called `distractors:NAME` there.
        protocol: `vpr`, `ilias`, `gldv2-retrieval` or `gldv2-recognition`; found out from the set
            if not given. The fields below are for these alone.
        database: The folder (or list, tar, store) to search in, below the set's; by default
            `database`, for Google Landmarks `index` or `train`.
        queries: The same for the queries; by default `queries` or `test`.
        positions: vpr: a CSV of `name,east,north` in metres, where names do not tell.
        radius: vpr: how many metres away a photo is still right.
        frames: vpr: photos up to this many frames away by name are right; no positions then.
        answerable: vpr: leave out queries that nothing is right for, instead of counting misses.
        k: How many of the list count in average precision; 1,000 for ilias, 100 for gldv2.
        predictions: gldv2: a CSV in the form of the challenges, in place of a model.
    """

    root: str | Path | None = None
    ground_truth: str | Path | None = None
    features: tuple[Features, Features] | None = None
    distractors: Features | None = None
    size: int | None = None
    scales: Sequence[float] | None = None
    cache: str | Path | None = None
    average: str = "trapezoid"
    precision: str | None = None
    device: str | None = None
    progress: Progress | None = None
    backend: str = "torch"
    half: bool = False
    asmk: str | Path | None = None
    codebook: str | Path | None = None
    regions: str | Path | None = None
    protocol: str | None = None
    database: str | Path | None = None
    queries: str | Path | None = None
    positions: str | Path | None = None
    radius: float = 25.0
    frames: int | None = None
    answerable: bool = False
    k: int | None = None
    predictions: str | Path | None = None

    @contextmanager
    def caching(self) -> Iterator[EvaluationSettings]:
        """The same with a folder for stores: the user's, or one that is gone afterwards."""
        if self.cache is not None:
            yield self
            return
        with tempfile.TemporaryDirectory(prefix="solar-evaluate-") as folder:
            yield replace(self, cache=folder)

    def without_features(self, job: str) -> EvaluationSettings:
        """The same; a SolarError if there are features, which would silently replace the model."""
        if self.features is not None:
            raise SolarError(f"{job} computes the embeddings itself: leave out --features.")
        return self


class EvaluationOptions(TypedDict, total=False):
    """The fields of `EvaluationSettings` as keywords, for whoever checks types or completes."""

    root: str | Path | None
    ground_truth: str | Path | None
    features: tuple[Features, Features] | None
    distractors: Features | None
    size: int | None
    scales: Sequence[float] | None
    cache: str | Path | None
    average: str
    precision: str | None
    device: str | None
    progress: Progress | None
    backend: str
    half: bool
    asmk: str | Path | None
    codebook: str | Path | None
    regions: str | Path | None


class ProtocolOptions(EvaluationOptions, total=False):
    """The same with the fields that are for `evaluate` alone."""

    protocol: str | None
    database: str | Path | None
    queries: str | Path | None
    positions: str | Path | None
    radius: float
    frames: int | None
    answerable: bool
    k: int | None
    predictions: str | Path | None
