"""A patch recipe's training and validation data."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from solar.datasets.patches.hpatches import STRIPS, HPatches, read_hpatches
from solar.datasets.patches.hpatches_cut import PhotoSequence, make_hpatches, read_sequences
from solar.datasets.patches.photo_points import PhotoPoints, collect_points
from solar.datasets.patches.phototour import PAIRS, read_phototour
from solar.errors import SolarError
from solar.images import Photos, find_photos
from solar.models import PatchNet
from solar.training.patches.recipe import PatchData, PatchRecipe, PatchValidation
from solar.training.patches.sources import SIDE, PatchSet, PatchSource, PointPatches, joined

Validate = Callable[[PatchNet], dict[str, float]]
"""Judges a network: figures by name, and `score`, of which more is better."""

LabelledPatches = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def open_source(
    recipe: PatchRecipe, device: torch.device, *, cache: Path | None = None
) -> PatchSource:
    """Open the pairs that a recipe names; a SolarError if they are damaged or too few for a batch.

    The cache is a `.npz` for the keypoints of photos.
    """
    data = recipe.data
    if data.kind == "photos":
        found = collect_points(find_photos(data.source), data.points, cache=cache)
        return point_source(recipe, found, device)
    if data.kind == "sequences":
        sequences = [s for folder in data.source for s in read_sequences(folder)]
        found, others, homographies = _collect_sequences(sequences, data, cache)
        return point_source(recipe, found, device, others, homographies)
    patches, labels = joined([part for folder in data.source for part in _sets(folder, data)])
    return PatchSet(
        patches, labels, points=recipe.batch, seed=recipe.seed, device=device, turn=data.turn
    )


def point_source(
    recipe: PatchRecipe,
    found: PhotoPoints,
    device: torch.device,
    others: npt.NDArray[np.int64] | None = None,
    homographies: npt.NDArray[np.float64] | None = None,
) -> PointPatches:
    """Pairs around keypoints that were found already, as `PointPatches` takes them."""
    return PointPatches(
        found,
        recipe.views,
        points=recipe.batch,
        per_photo=recipe.data.per_photo,
        seed=recipe.seed,
        device=device,
        others=others,
        homographies=homographies,
    )


def open_validation(settings: PatchValidation) -> Validate | None:
    """What judges a network, or None where nothing is named."""
    if not settings.source:
        return None
    if len(settings.source) > 1:
        raise SolarError(f"validation.source is one folder, not {len(settings.source)}.")
    (source,) = settings.source
    if settings.kind == "phototour":
        return _phototour_judge(source, settings.parts)
    if settings.kind == "sequences":
        return _matching_judge(make_hpatches(source))
    return _matching_judge(read_hpatches(source, settings.parts or None))


def _sets(folder: str, data: PatchData) -> list[LabelledPatches]:
    if data.kind == "phototour":
        tours = [read_phototour(folder, part) for part in data.parts or (None,)]
        return [(tour.patches(SIDE), tour.points) for tour in tours]
    from solar.evaluation.protocols.patch_describers import shrunk

    strips = read_hpatches(folder, data.parts or None)
    found = []
    for name in strips.names:
        patches = [shrunk(strips.strip(name, kind), SIDE).round() for kind in STRIPS]
        points = np.tile(np.arange(strips.counts[name]), len(STRIPS))
        found.append((np.concatenate(patches).astype(np.uint8), points))
    return found


def _collect_sequences(
    sequences: list[PhotoSequence], data: PatchData, cache: Path | None
) -> tuple[PhotoPoints, npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Keypoints of all photos of sequences, and how each photo is carried to its neighbours."""
    most = max(len(s.photos) for s in sequences)
    names = tuple(f"{s.name}/{photo.name}" for s in sequences for photo in s.photos)
    photos = Photos(names, tuple(photo for s in sequences for photo in s.photos))
    # Homographies are between stored pixels.
    found = collect_points(photos, replace(data.points, size=None), cache=cache, orient=False)
    if len(found.names) < len(names):
        missing = sorted(set(names) - set(found.names))[0]
        raise SolarError(f"The photo {missing} of a sequence cannot be read.")
    others = np.repeat(np.arange(len(names))[:, None], most, 1)
    maps = np.tile(np.eye(3), (len(names), most, 1, 1))
    start = 0
    for sequence in sequences:
        count = len(sequence.photos)
        here = slice(start, start + count)
        others[here, :count] = np.arange(start, start + count)
        from_first = sequence.homographies
        maps[here, :count] = from_first[None] @ np.linalg.inv(from_first)[:, None]
        start += count
    return found, others, maps


def _matching_judge(data: HPatches) -> Validate:
    from solar.evaluation.protocols.hpatches import evaluate_hpatches
    from solar.evaluation.protocols.patch_describers import patch_describer

    def judge(net: PatchNet) -> dict[str, float]:
        result = evaluate_hpatches(data, patch_describer(net), tasks=("matching",))
        found = 100 * result.mean("matching")
        return {"matching": found, "score": found}

    return judge


def _phototour_judge(source: str, parts: tuple[str, ...]) -> Validate:
    from solar.evaluation.protocols.patch_describers import patch_describer
    from solar.evaluation.protocols.phototour import evaluate_phototour

    tours = [read_phototour(source, part) for part in parts or (None,)]

    def judge(net: PatchNet) -> dict[str, float]:
        describe = patch_describer(net)
        results = [evaluate_phototour(tour, describe, pairs=PAIRS) for tour in tours]
        rates = {f"FPR95_{result.subset}": 100 * result.fpr95 for result in results}
        mean = float(np.mean(list(rates.values())))
        return {**rates, "FPR95": mean, "score": -mean}

    return judge
