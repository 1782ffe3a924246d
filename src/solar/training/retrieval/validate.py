"""Validation: mAP on held-out photos."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from solar.arrays import AnyFloats
from solar.datasets.labelled.photo_labels import labelled_photos
from solar.datasets.labelled.sources import holds_out, read_training_set
from solar.datasets.labelled.training_set import Part, Places
from solar.datasets.public.registry import GROUND_TRUTHS
from solar.describe.pipeline import DescribingJob
from solar.describe.runtime import describer
from solar.describe.settings import Settings
from solar.errors import SolarError
from solar.evaluation import EvaluationSettings, evaluate, evaluate_labels
from solar.evaluation.protocols.revisited import find_truth, truth_photos
from solar.images import Photos
from solar.models import RetrievalNet
from solar.training.retrieval.recipe import PhotoRecipe
from solar.training.shared_recipe import PhotoValidation

S = TypeVar("S", bound=Places)


@dataclass(frozen=True)
class Labelled:
    """Photos to validate on; each is a query for the others of its label."""

    photos: Photos
    labels: list[str]


Held = Labelled | tuple[str, ...]
"""What to validate on: photos, or the names of sets with a ground truth."""


def open_held(settings: PhotoValidation) -> Held:
    """The source of a validation: labelled photos, what a file holds out, or named sets."""
    sources = settings.source
    if not set(sources) <= set(GROUND_TRUTHS):
        return open_labelled(sources)
    for name in sources:  # what is missing should end a run before it begins
        truth = find_truth(name, EvaluationSettings(root=settings.root))
        assert truth is not None
        truth_photos(name, truth, settings.root)
    return sources


def open_labelled(sources: Sequence[str | Path]) -> Labelled:
    """Labelled photos, or what a .json or published .pkl holds out."""
    if Path(sources[0]).suffix.lower() in (".json", ".pkl"):
        return _labelled(read_training_set(sources, part="val"))
    return Labelled(*labelled_photos(sources))


def open_photos(recipe: PhotoRecipe, read: Callable[..., S]) -> tuple[S, Held | None]:
    """The photos to train on, by `read_training_set` or `places_in`, and those to validate on.

    The latter are the first that exists: the source of the validation, what the file of the data
    holds out, or a random fraction of its landmarks.
    """
    data, settings = recipe.data, recipe.validation
    parts: list[Part] = [data.part]
    if data.part == "train" and len(data.source) == 1 and holds_out(data.source[0]):
        parts.append("val")
    how = {name: getattr(data, name) for name in ("root", "missing", "drop_unverified")}
    found, *held = (read(data.source, part=part, **how) for part in parts)
    if settings.source:
        return found, open_held(settings)
    if not held and settings.fraction is not None:
        found, *held = found.split(settings.fraction, seed=recipe.seed)
    return found, _labelled(held[0]) if held else None


def _labelled(held: Places) -> Labelled:
    return Labelled(held.photos, [held.labels[n] for n in held.landmarks.tolist()])


def validate(net: RetrievalNet, held: Held, settings: PhotoValidation) -> dict[str, float]:
    """The mAP to judge by and further measures, in percent; a SolarError if nothing can be read."""
    if isinstance(held, tuple):
        return _of_named_sets(net, held, settings)
    names, vectors = described_at(net, held.photos, settings.size, settings.scales)
    if not names:
        raise SolarError("No photo to validate on could be read.")
    labels = dict(zip(held.photos.names, held.labels, strict=True))
    ranked = evaluate_labels(vectors, [labels[name] for name in names])
    score, recall = (100 * ranked.mean(name, "all") for name in ("AP", "recall@1"))
    return {"mAP": score, "recall@1": recall}


def _of_named_sets(
    net: RetrievalNet, names: Sequence[str], settings: PhotoValidation
) -> dict[str, float]:
    how = EvaluationSettings(root=settings.root, size=settings.size, scales=settings.scales)
    figures = {}
    for name in names:
        found = evaluate(name, model=net, settings=how)
        for protocol in found.protocols:
            figures[f"{name} {protocol}"] = 100 * found.mean("AP", protocol)
    judged = [x for name, x in figures.items() if name.endswith((" medium", " all"))]
    return {"mAP": sum(judged) / len(judged), **figures}


def described_at(
    net: RetrievalNet, photos: Photos, size: int | None, scales: Sequence[float]
) -> tuple[list[str], AnyFloats]:
    """Describe photos as an index does; names and rows of the readable ones."""
    how = Settings.of(net, size=size, scales=scales)
    [found] = DescribingJob(photos, how).run([range(len(photos))], describer(net, how))
    return found.names, np.reshape(found.vectors, (len(found.names), net.dim))
