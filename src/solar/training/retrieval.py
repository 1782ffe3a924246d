"""Training a network that finds photos: tuples with mined negatives, as in the paper."""

from collections.abc import Iterator
from contextlib import nullcontext
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from solar.datasets.seeds import generator
from solar.datasets.training import Part, TrainingSet, read_training_set
from solar.datasets.training_file import read_training_file
from solar.errors import SolarError
from solar.models import RetrievalNet
from solar.training import distributed
from solar.training.loader import Loader, TupleBatch
from solar.training.loop import Trainer
from solar.training.miner import Miner, contact_sheet
from solar.training.network import COMPUTED, build_network, frozen_stages, parameter_groups
from solar.training.objective import CollapseMonitor, Terms, objective
from solar.training.random_state import seed_everything
from solar.training.retrieval_recipe import RetrievalRecipe
from solar.training.run import State
from solar.training.trainable import TrainableNet
from solar.training.validate import Labelled, open_validation, validate

Batch = tuple[TupleBatch, Tensor]
"""Photos of whole tuples, and their landmarks (tuples, photos of a tuple)."""


class RetrievalTrainer(Trainer[RetrievalRecipe, Batch]):
    """A run of `task: retrieval`."""

    recipe_class, several, watched, validates_first = RetrievalRecipe, True, True, True
    net: RetrievalNet
    held: Labelled | None

    def prepare(self) -> None:
        """Open the photos and build the network."""
        recipe = self.recipe
        self.data, self.held = _open_data(recipe)
        self.save_every = self.steps_per_epoch = _steps_per_epoch(recipe, self.data, self.here.size)
        self.validate_every = recipe.validation.every * self.steps_per_epoch
        planned = recipe.epochs * self.steps_per_epoch
        self.steps = min(planned, recipe.steps or planned)
        self.net, self.origin = build_network(recipe.network)
        self.loader = Loader(self.data.photos, recipe.images, recipe.seed, self.device)
        self.monitor = CollapseMonitor(recipe.loss, stop=recipe.stop_on_collapse)
        self.tuples: Tensor | None = None  # (q, s) photos of an epoch, once they are mined

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parts of the network with their own learning rates."""
        return parameter_groups(self.net, self.recipe.optimiser)

    def ready(self) -> None:
        """Fuse what is frozen, which may copy it, and join the other processes."""
        self.trainable = TrainableNet(self.net, self.recipe.compute, self.recipe.images.augment)
        self.miner = Miner(self.data, self.loader, self.trainable, self.recipe)
        self.model: nn.Module = self.trainable
        if self.here.size > 1:
            self.model = nn.parallel.DistributedDataParallel(
                self.trainable,
                device_ids=[self.device.index] if self.device.type == "cuda" else None,
                broadcast_buffers=not self.net.freeze_batch_norm,
            )

    def begin(self) -> None:
        """Compute what starts from photos, and say where the rest is from."""
        random_backbone = self.origin["backbone"] == "random"
        if random_backbone and not self.net.freeze_batch_norm:
            self.miner.estimate_batch_norms()
        if self.origin["whitening"].startswith(COMPUTED):
            self.net.eval()
            self.miner.learn_whitening()
        learning = sum(p.numel() for p in self.learning)
        origin = {f"from_{name}": source for name, source in self.origin.items()}
        self.run.log(0, photos=len(self.data), parameters=learning, **origin)
        if random_backbone and frozen_stages(self.net):
            self.warn(
                "The backbone starts at random and does not all learn: name a trained network "
                "with network.start or network.features, or set optimiser.backbone.all=1."
            )
        if self.steps <= self.recipe.schedule.warmup:
            self.warn(
                f"All {self.steps} steps of the run are within the warm-up of the learning rate: "
                f"train for longer, or set schedule.warmup={self.steps // 10}."
            )

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

    def backward(self, batch: Batch) -> Terms:
        """Leave the gradients in the parameters; in chunks, if the recipe asks for them."""
        chunks = self.recipe.compute.grad_cache_chunks
        if chunks == 1:
            return super().backward(batch)
        photos, landmarks = batch
        parts = [part for group in photos.groups for part in torch.chunk(group, chunks)]
        with torch.no_grad():
            found = [self.trainable([part], self._chance(n)) for n, part in enumerate(parts)]
        rows = torch.cat(found).requires_grad_()
        terms = self._loss(rows[photos.order.to(self.device)], landmarks)
        (gradient,) = torch.autograd.grad(terms["loss"], rows)
        of_parts = torch.split(gradient, [len(part) for part in parts])
        for n, (part, mine) in enumerate(zip(parts, of_parts, strict=True)):
            # Processes talk about gradients once a step, after the last chunk.
            quiet = self.here.size > 1 and n + 1 < len(parts)
            with self.model.no_sync() if quiet else nullcontext():  # type: ignore[operator]
                torch.autograd.backward(self.model([part], self._chance(n)), mine)
        return terms

    def terms(self, batch: Batch) -> Terms:
        """The loss of the tuples of all processes."""
        photos, landmarks = batch
        rows = self.model(photos.groups, self._chance())
        return self._loss(rows[photos.order.to(self.device)], landmarks)

    def _chance(self, *chunk: int) -> torch.Generator:
        return generator(self.recipe.seed, self.step + 1, self.here.rank, *chunk)

    def _loss(self, rows: Tensor, landmarks: Tensor) -> Terms:
        everybody = distributed.collect(landmarks)
        return objective(distributed.gather(rows), everybody, self.recipe.loss)

    def validate(self) -> tuple[float, dict[str, float]]:
        """Find held-out photos of the same landmarks."""
        assert self.held is not None
        found = validate(self.net, self.held, self.recipe.validation)
        return found["mAP"], {"epoch": self.step // self.steps_per_epoch, **found}

    def extra_figures(self) -> dict[str, float]:
        """The epoch of the step just taken."""
        return {"epoch": (self.step - 1) // self.steps_per_epoch}

    def extra_state(self) -> State:
        """The tuples of an epoch that is going on."""
        return {"tuples": self.tuples if self.step % self.steps_per_epoch else None}

    def load_extra(self, state: State) -> None:
        """Go on with those tuples."""
        self.tuples = state["tuples"]

    def finish(self) -> dict[str, Any]:
        """Write the last state, and tell of photos that could not be read."""
        files = super().finish()
        if bad := self.loader.unreadable:
            first = next(iter(bad.values()))
            self.warn(f"Photos that could not be read were replaced, {len(bad)} in all: {first}")
        score = self.best if isfinite(self.best) else None
        return {"model": files["model"], "mAP": score, "unreadable": len(bad)}


def _open_data(recipe: RetrievalRecipe) -> tuple[TrainingSet, Labelled | None]:
    data = recipe.data
    wanted: list[Part] = [data.part]
    file = Path(data.source[0])
    # A file of `solar data build --val-fraction` holds photos out.
    one_file = len(data.source) == 1 and file.suffix == ".json"
    if data.part == "train" and one_file and read_training_file(file).holds_out:
        wanted.append("val")
    found = [
        read_training_set(data.source, root=data.root, part=part, missing=data.missing)
        for part in wanted
    ]
    if data.drop_unverified:
        found = [one.verified(", ".join(data.source)) for one in found]
    return open_validation(recipe.validation, found[0], recipe.seed, *found[1:])


def _steps_per_epoch(recipe: RetrievalRecipe, data: TrainingSet, processes: int) -> int:
    if recipe.batch % processes:
        raise SolarError(
            f"A batch of {recipe.batch} tuples cannot be shared by {processes} processes: "
            f"choose a multiple, such as batch={processes}."
        )
    others, negatives = len(data.labels) - 1, recipe.mining.negatives
    if others < negatives:  # mining would find out, but only after the run has begun
        raise SolarError(
            f"A photo can be told from {others} other landmark{'s' * (others != 1)}, but "
            f"{negatives} negatives are asked for: set mining.negatives={others}, or add landmarks."
        )
    known, asked = len(data.queries), recipe.mining.queries
    if known < recipe.batch:
        raise SolarError(
            f"Only {known} photos have another one that shows the same, but a batch needs "
            f"{recipe.batch}: set batch={known} or less, or add photos."
        )
    if asked < recipe.batch:
        raise SolarError(
            f"An epoch takes mining.queries={asked} queries, but a batch needs {recipe.batch}: "
            "raise mining.queries, or lower batch."
        )
    return min(known, asked) // recipe.batch
