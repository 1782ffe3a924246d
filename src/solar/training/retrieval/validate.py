"""Validation: mAP on held-out photos."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar.arrays import AnyFloats
from solar.datasets.labelled.photo_labels import labelled_photos
from solar.datasets.labelled.sources import TrainingSet, read_training_set
from solar.describe import pipeline
from solar.describe.prefetch import ahead
from solar.describe.settings import Settings
from solar.errors import SolarError
from solar.evaluation import evaluate_labels
from solar.images import Photos
from solar.models import RetrievalNet
from solar.training.retrieval.recipe import RetrievalValidation
from solar.training.shared_recipe import PhotoValidation


@dataclass(frozen=True)
class Labelled:
    """Photos to validate on; each is a query for the others of its label."""

    photos: Photos
    labels: list[str]


def open_labelled(sources: Sequence[str | Path]) -> Labelled:
    """Labelled photos, or what a .json or published .pkl holds out."""
    if Path(sources[0]).suffix.lower() in (".json", ".pkl"):
        return _labelled(read_training_set(sources, part="val"))
    return Labelled(*labelled_photos(sources))


def open_validation(
    settings: RetrievalValidation, data: TrainingSet, seed: int, held: TrainingSet | None = None
) -> tuple[TrainingSet, Labelled | None]:
    """The data to train on, and the photos to validate on, if any.

    The first that exists: the settings' source, the held-out part of the training data, or a random
    fraction of its landmarks.
    """
    if settings.source:
        return data, open_labelled(settings.source)
    if held is None and settings.fraction is not None:
        data, held = data.split(settings.fraction, seed=seed)
    return data, None if held is None else _labelled(held)


def _labelled(held: TrainingSet) -> Labelled:
    return Labelled(held.photos, [held.labels[n] for n in held.landmarks.tolist()])


def validate(net: RetrievalNet, held: Labelled, settings: PhotoValidation) -> dict[str, float]:
    """MAP and recall@1 in percent; a SolarError if no photo can be read."""
    names, vectors = described_at(net, held.photos, settings.size, settings.scales)
    if not names:
        raise SolarError("No photo to validate on could be read.")
    labels = dict(zip(held.photos.names, held.labels, strict=True))
    ranked = evaluate_labels(vectors, [labels[name] for name in names])
    score, recall = (100 * ranked.mean(name, "all") for name in ("AP", "recall@1"))
    return {"mAP": score, "recall@1": recall}


def described_at(
    net: RetrievalNet, photos: Photos, size: int | None, scales: Sequence[float]
) -> tuple[list[str], AnyFloats]:
    """Describe photos as `solar.extract` does; names and rows of the readable ones."""
    how = Settings.of(net, size=size, scales=scales)
    job = pipeline.ExtractionJob(photos, how, {}, pipeline.Throughput())
    describe = pipeline.describer(net, how)
    numbers, threads = range(len(photos)), pipeline.decoders_for(describe.device)
    decoded = ahead(job.decode, numbers, threads, 64 + threads)
    found = job.describe(numbers, decoded, describe)
    rows = np.stack(found.vectors) if found.names else np.empty((0, net.dim), np.float32)
    return found.names, rows
