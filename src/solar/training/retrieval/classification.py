"""Training as classification of labelled places: ArcFace and similar losses, without mining."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from solar.datasets.labelled.sources import places_in
from solar.datasets.seeds import generator
from solar.errors import SolarError
from solar.losses import NEGATIVES, Classifier, nearest_negatives, second_order
from solar.training.distributed import collect, gather
from solar.training.objective import CollapseMonitor, Terms
from solar.training.retrieval.photo_trainer import PhotoTrainer, contact_sheet
from solar.training.retrieval.recipe import PlaceRecipe
from solar.training.retrieval.start import LOCAL_WHITENING_PHOTOS
from solar.training.run import State

_DESCRIBED = 1 << 14  # photos whose descriptors are held at once
_TRIES = 100  # unreadable photos in a row that end a run
_ORDER = 1 << 20  # separates the random numbers of epochs from those of steps


class PlaceTrainer(PhotoTrainer[PlaceRecipe]):
    """A run of `task: places`; a batch is photos, and the place (b,) of each.

    Every process has the weights of all places and computes the loss of the whole batch from
    gathered descriptors. So each finds the whole gradient of those weights, and processes exchange
    a megabyte per step instead of that gradient.
    """

    recipe_class, read, unit = PlaceRecipe, places_in, "photos"

    def prepare(self) -> None:
        """Open the photos and build the network and the places' weights."""
        super().prepare()
        loss, places = self.recipe.loss, len(self.data.labels)
        self.classifier = Classifier(
            self.net.dim, places, kind=loss.kind, margin=loss.margin, scale=loss.scale
        ).to(self.device)
        advice = "Lower optimiser.lr, loss.margin or loss.second_order."
        self.monitor = CollapseMonitor(stop=self.recipe.stop_on_collapse, advice=advice)

    def _steps_per_epoch(self) -> int:
        count, batch = epoch_length(self.data.landmarks, self.recipe.each), self.recipe.batch
        if count < batch:
            raise SolarError(
                f"An epoch has {count} photos, but a batch needs {batch}: "
                f"set batch={count // self.recipe.each * self.recipe.each} or less, or add photos."
            )
        return count // batch

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Weights of the places and parts of the network; biases and norms do not decay."""
        settings, weight = self.recipe.optimiser, self.classifier.weight
        rate = settings.lr * settings.classifier
        groups: list[dict[str, Any]] = [{"name": "classifier", "params": [weight], "lr": rate}]
        for group in super().parameter_groups():
            flat = [p for p in group["params"] if p.dim() <= 1]
            rest = [p for p in group["params"] if p.dim() > 1]
            still = {"name": f"{group['name']}, flat", "params": flat, "weight_decay": 0.0}
            groups += [{**group, "params": rest}] if rest else []
            groups += [{**group, **still}] if flat else []
        return groups

    def begin(self) -> None:
        """Compute the weights that start from photos."""
        super().begin()
        if self.recipe.loss.start == "means":
            self._start_places()

    @torch.no_grad()
    def _start_places(self) -> None:
        """Start every place at the mean of its photos."""
        self.bar.say("Computing the class centres")
        self.net.eval()
        sums = torch.zeros_like(self.classifier.weight)
        for numbers in torch.split(torch.arange(len(self.data)), _DESCRIBED):
            sums.index_add_(0, self.landmarks[numbers].to(self.device), self.describe(numbers)[0])
        self.classifier.weight.copy_(F.normalize(sums, dim=1))

    def _first_photos(self) -> Tensor:
        return self._shuffled(0).flatten()[:LOCAL_WHITENING_PHOTOS]

    def _shuffled(self, epoch: int) -> Tensor:
        recipe = self.recipe
        chance = generator(recipe.seed, _ORDER + epoch, recipe.each)
        return epoch_order(self.landmarks, recipe.each, chance)[:, None]

    def _order(self, epoch: int) -> Tensor:
        order = self._shuffled(epoch)
        if self.here.leads and not self.step % self.steps_per_epoch:
            groups = order.view(-1, self.recipe.each)[:, :2]
            self.run.image(self.step, "places", contact_sheet(self.data.photos, groups))
        return order

    def _choices(self, order: Tensor, place: int) -> list[int]:
        """Any photo may stand in for another, as each comes with its own label."""
        first = int(order[place])
        return [n % len(self.data) for n in range(first, first + _TRIES)]

    def _loss(self, rows: Tensor, shown: Tensor) -> Terms:
        rows, labels = gather(rows), collect(shown[:, 0])
        found = self.classifier(rows, labels)
        weight = self.recipe.loss.second_order
        second = place_similarity(rows, labels) if weight else rows.new_zeros(())
        total = found.loss + weight * second
        with torch.no_grad():
            return {
                "loss": total,
                "first_order": found.loss,
                "second_order": second,
                "accuracy": found.accuracy,
                "near": found.near,
                "far": found.far,
                "spread": 1 - rows.float().mean(0).square().sum(),
            }

    def extra_state(self) -> State:
        """The weights of the places."""
        state = self.classifier.state_dict()
        return {"classifier": {name: value.cpu() for name, value in state.items()}}

    def load_extra(self, state: State) -> None:
        """Load them."""
        self.classifier.load_state_dict(state["classifier"])


def place_similarity(rows: Tensor, labels: Tensor) -> Tensor:
    """The second-order loss of a batch (n, dim), whose rows 0 and 1, 2 and 3, … may be pairs.

    Negatives are the five nearest rows of other places, or fewer if a pair has fewer. Zero without
    pairs or negatives.
    """
    end = len(rows) // 2 * 2
    paired = labels[:end:2] == labels[1:end:2]
    anchors, positives = rows[:end:2][paired], rows[1:end:2][paired]
    kin = labels[:end:2][paired, None] == labels
    count = min(NEGATIVES, int((~kin).sum(1).min())) if len(kin) else 0
    if count == 0:
        return rows.sum() * 0
    negatives = nearest_negatives(anchors, rows, kin, count)
    return second_order(anchors, positives, negatives, reduction="per_query")


def epoch_length(labels: np.ndarray[Any, np.dtype[np.int64]], each: int) -> int:
    """Photos of an epoch with groups of `each` photos of a place."""
    return int((-(-np.bincount(labels) // each)).sum()) * each


def epoch_order(labels: Tensor, each: int, chance: torch.Generator) -> Tensor:
    """The photos (`epoch_length`,) of an epoch, shuffled in groups of `each` of one place.

    All photos occur; the last group of a place is filled up with some of its other photos.
    """
    shuffled = torch.randperm(len(labels), generator=chance)
    if each == 1:
        return shuffled
    together = shuffled[torch.argsort(labels[shuffled], stable=True)]
    counts = torch.bincount(labels)
    filled = -(-counts // each) * each
    place = torch.arange(len(counts)).repeat_interleave(filled)
    within = torch.arange(len(place)) - (filled.cumsum(0) - filled)[place]
    groups = together[(counts.cumsum(0) - counts)[place] + within % counts[place]].view(-1, each)
    return groups[torch.randperm(len(groups), generator=chance)].flatten()
