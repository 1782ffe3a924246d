"""How an evaluation is done: the options that `evaluate`, `sweep_p` and `rankings` share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.arrays import AnyFloats
    from solar.describe.progress import Progress

Features: TypeAlias = "str | Path | AnyFloats"
"""Embeddings: an array, an index, or a file that `read_vectors` takes."""

_OF_ASMK = ("local_features", "codebook")
_OF_PROTOCOLS = (
    *("database", "queries", "positions", "radius", "frames", "answerable", "depth"),
    "predictions",
)


@dataclass(frozen=True)
class EvaluationSettings:
    """Everything but the set and the model.

    `solar evaluate` has an option for each field, with this text as its help.

    Attributes:
        root: Folder of the data: of the photos, or one with a named set's `jpg/` and ground truth,
            or that has both in a folder of the set's name.
        ground_truth: The ground truth file, if it is not in the root.
        features: Embeddings of the database and of the queries (.npy, .pt, .mat or an index), in
            the order of the ground truth, instead of a model and photos.
        distractors: Photos or embeddings that match no query.
        size: Longest side of photos in pixels; default: the model's own.
        scales: Scales to average; default: the model's own.
        cache: Folder that caches the embeddings for the next run.
        average: Average precision: `trapezoid`, as published, or `finite`.
        precision: float64 or float32 scores, which give the same ranks; default: float64 up to
            65,536 rows.
        device: Where to compute scores and, for a model that is not loaded yet, embeddings.
        progress: Called with the step, what is done, and the total.
        backend: CPU backend, as for `solar.build`; default: auto, the fastest.
        compress: `none`, or `fp16` to round embeddings to float16.
        published: As the published code does it: stored pixels (no EXIF orientation), decoded by
            Pillow, and float32 on a GPU, too.
        method: `global`, one embedding per photo, or `asmk`: rank by ASMK* with local features
            instead of a model.
        local_features: For ASMK: what `solar.match` takes as a model; default: rootsift.
        codebook: For ASMK: an index or a file whose visual words to use; default: learned from the
            set.
        protocol: vpr (place recognition), ilias, gldv2-retrieval or gldv2-recognition.
        database: Photos or an index to search in, below the folder; default: database (vpr), index
            or train (gldv2).
        queries: Query photos or an index, below the folder; default: queries (vpr) or test (gldv2).
        positions: vpr: a CSV of name,east,north in metres, if names lack @UTM_E@UTM_N@.
        radius: vpr: a photo is correct within this many metres.
        frames: vpr: photos of the same name up to this many frames apart are correct (Nordland).
        answerable: vpr: leave out queries without a correct photo.
        depth: Depth of AP@k; default: 1000 for ilias, 100 for gldv2-retrieval.
        predictions: gldv2: a CSV in the challenge's format, instead of a model.
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
    backend: str | None = None
    compress: str | None = None
    published: bool = False
    method: Literal["global", "asmk"] = "global"
    local_features: str | Path | None = None
    codebook: str | Path | None = None
    protocol: str | None = None
    database: str | Path | None = None
    queries: str | Path | None = None
    positions: str | Path | None = None
    radius: float = 25.0
    frames: int | None = None
    answerable: bool = False
    depth: int | None = None
    predictions: str | Path | None = None

    def __post_init__(self) -> None:
        defaults = {field.name: field.default for field in fields(self)}
        for names, needed in (
            (_OF_ASMK, None if self.method == "asmk" else 'method="asmk"'),
            (_OF_PROTOCOLS, None if self.protocol else "protocol="),
        ):
            for name in names:
                if needed and getattr(self, name) != defaults[name]:
                    raise SolarError(f"`{name}=` needs `{needed}`.")
        if self.published and self.backend not in (None, "torch"):
            raise SolarError("`published=` computes with torch: leave out `backend=`.")
        for name in ("radius", "frames", "depth"):
            if (getattr(self, name) or 0) < 0:
                raise SolarError(f"`{name}=` must not be negative.")

    @property
    def describing(self) -> dict[str, Any]:
        """Fields of `solar.describe.Settings`."""
        how: dict[str, Any] = {"size": self.size, "scales": self.scales}
        as_published = {"orient": False, "mode": "exact", "precision": "float32"}
        return how | as_published if self.published else how

    @contextmanager
    def caching(self) -> Iterator[EvaluationSettings]:
        """The same with a folder for indexes: the user's, or one that is gone afterwards."""
        if self.cache is not None:
            yield self
            return
        with tempfile.TemporaryDirectory(prefix="solar-evaluate-") as folder:
            yield replace(self, cache=folder)

    def without_features(self, job: str) -> EvaluationSettings:
        """The same; a SolarError if there are features, which would silently replace the model."""
        if self.features is not None:
            raise SolarError(f"{job} computes the embeddings itself: leave out `features=`.")
        return self
