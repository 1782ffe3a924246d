"""Training of patch networks: the pairs and the validation of a recipe, and the trainer."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from solar.datasets.patches.hpatches import STRIPS, HPatches, read_hpatches
from solar.datasets.patches.hpatches_cut import PhotoSequence, make_hpatches, read_sequences
from solar.datasets.patches.photo_points import PhotoPoints, collect_points
from solar.datasets.patches.phototour import PAIRS, read_phototour
from solar.errors import SolarError
from solar.evaluation.protocols.hpatches import evaluate_hpatches
from solar.evaluation.protocols.patch_describers import patch_describer, shrunk
from solar.evaluation.protocols.phototour import evaluate_phototour
from solar.images import Photos, find_photos
from solar.losses import PatchLoss
from solar.models import PatchNet, load
from solar.training.loop import Trainer
from solar.training.objective import Terms
from solar.training.patches.recipe import PatchData, PatchRecipe, PatchValidation
from solar.training.patches.sources import SIDE, Neighbours, PatchSet, PointPatches, joined

Validate = Callable[[PatchNet], dict[str, float]]
"""Figures of a network, with a `score` (higher is better)."""

LabelledPatches = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


class PatchTrainer(Trainer[PatchRecipe, Tensor]):
    """A run of `task: patches`."""

    recipe_class = PatchRecipe
    source: PointPatches | PatchSet
    net: PatchNet
    held: Validate | None
    _teacher: PatchNet | None = None

    def open_source(self) -> PointPatches | PatchSet:
        """Open the pairs; a SolarError if they are damaged or too few for a batch."""
        recipe, data = self.recipe, self.recipe.data
        how: Any = {"points": recipe.batch, "seed": recipe.seed, "device": self.device}
        neighbours = None
        if data.kind == "photos":
            found = collect_points(find_photos(data.source), data.points)
        elif data.kind == "sequences":
            sequences = [s for folder in data.source for s in read_sequences(folder)]
            found, neighbours = _collect_sequences(sequences, data)
        else:
            sets = joined([part for folder in data.source for part in _sets(folder, data)])
            return PatchSet(*sets, turn=data.turn, **how)
        how |= {"per_photo": data.per_photo, "neighbours": neighbours}
        return PointPatches(found, recipe.views, **how)

    def prepare(self) -> None:
        """Open the pairs and build the network."""
        recipe = self.recipe
        self.source = self.open_source()
        self.steps_per_epoch = self.source.batches
        self.steps = recipe.steps or recipe.epochs * self.steps_per_epoch
        self.validate_every = recipe.validation.every or self.steps_per_epoch
        self.held = open_validation(recipe.validation)
        self.net = PatchNet(recipe.network.config())
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # every batch has the same shape
            self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._run: Any = torch.compile(self.net) if recipe.compute.compile else self.net
        self._remembered: dict[int, Tensor] = {}
        if name := recipe.teacher.model:
            teacher = load(name, device=self.device)
            if not isinstance(teacher, PatchNet):
                raise SolarError(f"teacher.model: {name} does not describe patches.")
            self._teacher = teacher.requires_grad_(False)

    def batches(self) -> Iterator[Tensor]:
        """Pairs (2, n, 1, 32, 32)."""
        while self.step < self.steps:
            yield self.source.batch(self._number())

    def _number(self) -> int:
        different = self.recipe.teacher.batches
        return self.step % different if different else self.step

    def terms(self, batch: Tensor) -> Terms:
        """Compare the descriptors of pairs."""
        patches = batch.flatten(0, 1)
        parts = [patches] if self.recipe.sides == "together" else list(batch)
        with self.recipe.compute.computing(self.device):
            rows = torch.cat([self._run(part) for part in parts]).float()
        found = self.recipe.loss(*rows.chunk(2))
        terms = dict(zip(("loss", *PatchLoss._fields[1:]), found, strict=True))
        if self._teacher is None:
            return terms
        apart = (rows - self._teach(self._teacher, patches)).square().sum()
        return {**terms, "loss": terms["loss"] + self.recipe.teacher.weight * apart, "apart": apart}

    def _teach(self, teacher: PatchNet, patches: Tensor) -> Tensor:
        """The teacher's descriptors (n, 128) of the patches of a batch."""
        number = self._number()
        rows = self._remembered.get(number)
        if rows is None:
            with torch.no_grad(), self.recipe.compute.computing(self.device):
                rows = teacher(patches)
            if self.recipe.teacher.batches:  # rounded now, so that the first use equals later ones
                rows = self._remembered[number] = rows.half().cpu()
        return rows.to(self.device).float()

    def validate(self) -> tuple[float, dict[str, float]]:
        """Evaluate the network on the validation patches."""
        assert self.held is not None
        figures = self.held(self.net)
        return figures["score"], figures

    def extra_figures(self) -> dict[str, float]:
        """Steps per second."""
        return {"steps_a_second": self.meter.speed}

    def finish(self) -> dict[str, Any]:
        """Write the last state."""
        return {name: value for name, value in super().finish().items() if name != "score"}


def open_validation(settings: PatchValidation) -> Validate | None:
    """The validation of a recipe, if any."""
    if not settings.source:
        return None
    if len(settings.source) > 1:
        raise SolarError(f"validation.source is one folder, not {len(settings.source)}.")
    (source,) = settings.source
    if settings.kind == "phototour":
        return _phototour_judge(source, settings)
    if settings.kind == "sequences":
        return _matching_judge(make_hpatches(source), settings)
    return _matching_judge(read_hpatches(source, settings.parts or None), settings)


def _sets(folder: str, data: PatchData) -> list[LabelledPatches]:
    if data.kind == "phototour":
        tours = [read_phototour(folder, part) for part in data.parts or (None,)]
        return [(tour.halved(), tour.points) for tour in tours]
    strips = read_hpatches(folder, data.parts or None)
    found = []
    for name in strips.names:
        patches = [shrunk(strips.strip(name, kind), SIDE, data.shrink).round() for kind in STRIPS]
        points = np.tile(np.arange(strips.counts[name]), len(STRIPS))
        found.append((np.concatenate(patches).astype(np.uint8), points))
    return found


def _collect_sequences(
    sequences: list[PhotoSequence], data: PatchData
) -> tuple[PhotoPoints, Neighbours]:
    """Keypoints of all photos of sequences, and how each photo is carried to its neighbours."""
    most = max(len(s.photos) for s in sequences)
    names = tuple(f"{s.name}/{photo.name}" for s in sequences for photo in s.photos)
    photos = Photos(names, tuple(photo for s in sequences for photo in s.photos))
    # Homographies are between stored pixels.
    found = collect_points(photos, replace(data.points, size=None), orient=False)
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
    return found, (others, maps)


def _matching_judge(data: HPatches, settings: PatchValidation) -> Validate:
    def judge(net: PatchNet) -> dict[str, float]:
        describe = patch_describer(net, shrink=settings.shrink)
        result = evaluate_hpatches(data, describe, tasks=("matching",))
        found = 100 * result.mean("matching")
        return {"matching": found, "score": found}

    return judge


def _phototour_judge(source: str, settings: PatchValidation) -> Validate:
    tours = [read_phototour(source, part) for part in settings.parts or (None,)]

    def judge(net: PatchNet) -> dict[str, float]:
        describe = patch_describer(net, shrink=settings.shrink)
        results = [evaluate_phototour(tour, describe, pairs=PAIRS) for tour in tours]
        rates = {f"FPR95_{result.subset}": 100 * result.fpr95 for result in results}
        mean = float(np.mean(list(rates.values())))
        return {**rates, "FPR95": mean, "score": -mean}

    return judge
