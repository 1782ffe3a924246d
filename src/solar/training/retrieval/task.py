"""Training with tuples and mined negatives, as in the paper."""

from collections.abc import Iterator

import torch
from torch import Tensor

from solar.datasets.labelled.sources import TrainingSet, read_training_set
from solar.errors import SolarError
from solar.training import distributed
from solar.training.objective import CollapseMonitor, Terms, objective
from solar.training.random_state import seed_everything
from solar.training.retrieval.loader import Loader
from solar.training.retrieval.miner import Miner, contact_sheet
from solar.training.retrieval.network import COMPUTED, build_network
from solar.training.retrieval.photo_trainer import Batch, PhotoTrainer, parts_of
from solar.training.retrieval.recipe import RetrievalRecipe
from solar.training.retrieval.validate import Labelled, open_validation
from solar.training.run import State


class RetrievalTrainer(PhotoTrainer[RetrievalRecipe]):
    """A run of `task: retrieval`; a batch is whole tuples, and the landmarks (tuples, photos)."""

    recipe_class = RetrievalRecipe

    def prepare(self) -> None:
        """Open the photos and build the network."""
        recipe = self.recipe
        self.data, self.held = _open_data(recipe)
        self.check_share("tuples")
        self.count_steps(_steps_per_epoch(recipe, self.data))
        self.net, self.origin = build_network(recipe.network)
        self.loader = Loader(self.data.photos, recipe.images, recipe.seed, self.device)
        self.monitor = CollapseMonitor(recipe.loss, stop=recipe.stop_on_collapse)
        self.tuples: Tensor | None = None  # (q, s) photos of an epoch, once they are mined

    def ready(self) -> None:
        """Fuse what is frozen, join the other processes, and make the miner."""
        super().ready()
        self.miner = Miner(self.data, self.loader, self.trainable, self.recipe)

    def begin(self) -> None:
        """Compute what starts from photos, and say where the rest is from."""
        if self.origin["backbone"] == "random" and not self.net.freeze_batch_norm:
            self.miner.estimate_batch_norms()
        if self.origin["whitening"].startswith(COMPUTED):
            self.net.eval()
            self.miner.learn_whitening()
        super().begin()

    def batches(self) -> Iterator[Batch]:
        """Mine the tuples of an epoch, and give every process its share of each step."""
        batch, share = self.recipe.batch, self.recipe.batch // self.here.size
        while self.step < self.steps:
            epoch, position = divmod(self.step, self.steps_per_epoch)
            if self.tuples is None or position == 0:
                self.tuples = self._mined(epoch)
            left = min(self.steps_per_epoch, position + self.steps - self.step)
            firsts = [n * batch + self.here.rank * share for n in range(position, left)]
            numbers = [first + n for first in firsts for n in range(share)]
            landmarks = torch.from_numpy(self.data.landmarks)[self.tuples].to(self.device)
            read = self.loader.batches(self.tuples, numbers, share, epoch)
            for first, photos in zip(firsts, read, strict=True):
                yield photos, landmarks[first : first + share]

    def _mined(self, epoch: int) -> Tensor:
        seed_everything(self.recipe.seed + epoch)
        self.bar.say(f"Mining for epoch {epoch + 1}")
        self.net.eval()
        tuples, figures = self.miner.mine(epoch)
        self.net.train()
        if self.here.leads:
            self.run.log(self.step, epoch=epoch, **figures)
            self.run.image(self.step, "tuples", contact_sheet(self.data.photos, tuples))
        return tuples

    def _loss(self, rows: Tensor, shown: Tensor) -> Terms:
        everybody = distributed.collect(shown)
        return objective(distributed.gather(rows), everybody, self.recipe.loss)

    def extra_state(self) -> State:
        """The tuples of an epoch that is going on."""
        return {"tuples": self.tuples if self.step % self.steps_per_epoch else None}

    def load_extra(self, state: State) -> None:
        """Go on with those tuples."""
        self.tuples = state["tuples"]


def _open_data(recipe: RetrievalRecipe) -> tuple[TrainingSet, Labelled | None]:
    data = recipe.data
    found = [
        read_training_set(data.source, root=data.root, part=part, missing=data.missing)
        for part in parts_of(data)
    ]
    if data.drop_unverified:
        found = [one.verified(", ".join(data.source)) for one in found]
    return open_validation(recipe.validation, found[0], recipe.seed, *found[1:])


def _steps_per_epoch(recipe: RetrievalRecipe, data: TrainingSet) -> int:
    others, negatives = len(data.labels) - 1, recipe.mining.negatives
    if others < negatives:  # mining would find out, but only after the run has begun
        raise SolarError(
            f"There {'are' if others != 1 else 'is'} only {others} other landmark"
            f"{'s' * (others != 1)}, but {negatives} negatives are asked for: set "
            f"mining.negatives={others}, or add landmarks."
        )
    known, asked = len(data.queries), recipe.mining.queries
    if known < recipe.batch:
        raise SolarError(
            f"Only {known} photos have a positive (same landmark), but a batch needs "
            f"{recipe.batch}: set batch={known} or less, or add photos."
        )
    if asked < recipe.batch:
        raise SolarError(
            f"An epoch takes mining.queries={asked} queries, but a batch needs {recipe.batch}: "
            "raise mining.queries, or lower batch."
        )
    return min(known, asked) // recipe.batch
