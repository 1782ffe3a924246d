"""Training a network that finds photos: the paper's loop, which can be stopped anywhere."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from solar.datasets.seeds import generator
from solar.datasets.training import Part, TrainingSet, read_training_set
from solar.datasets.training_file import read_training_file
from solar.errors import SolarError
from solar.models import save
from solar.models.inference import best_device
from solar.training import distributed
from solar.training.ema import EMA
from solar.training.loader import Loader, TupleBatch
from solar.training.miner import (
    contact_sheet,
    learn_whitening,
    mine_epoch,
    settle_batch_norms,
)
from solar.training.network import (
    COMPUTED,
    build_network,
    frozen_stages,
    make_optimiser,
    set_training,
)
from solar.training.objective import CollapseMonitor, Terms, check_finite, objective
from solar.training.progress import Bar
from solar.training.random_state import capture_random, restore_random, seed_everything
from solar.training.recipe import read_recipe
from solar.training.retrieval_recipe import RetrievalRecipe
from solar.training.run import Run, State
from solar.training.schedule import set_learning_rate
from solar.training.trainable import TrainableNet
from solar.training.validate import Labelled, open_validation, validate


def train(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    run: str | Path,
    resume: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Train as a recipe says; arguments and result as for `solar.train`."""
    recipe = read_recipe(RetrievalRecipe, path, overrides)
    device = recipe.compute.device or best_device()
    here = distributed.start(device)
    try:
        place = torch.device(device, here.local_rank) if device == "cuda" else torch.device(device)
        return Trainer(recipe, Path(run), place, resume=resume, progress=progress).fit()
    finally:
        distributed.stop()


class Trainer:
    """A run: what is trained, how far it is, and where it writes.

    Attributes:
        step: Steps taken.
        epoch: Number of the epoch that is going on, from 0.
        position: Steps taken in it.
        tuples: Of that epoch, (q, s) photos; None until they are mined.
    """

    def __init__(
        self,
        recipe: RetrievalRecipe,
        folder: Path,
        device: torch.device,
        *,
        resume: bool = False,
        progress: bool = False,
    ) -> None:
        self.recipe, self.device = recipe, device
        self.here = distributed.world()
        self.data, self.held = _open_data(recipe)
        self.steps_per_epoch = _steps_per_epoch(recipe, self.data, self.here.size)
        planned = recipe.epochs * self.steps_per_epoch
        self.steps = min(planned, recipe.steps or planned)
        seed_everything(recipe.seed)
        self.net, self.origin = build_network(recipe.network)
        self.net.to(device)
        self.optimiser = make_optimiser(self.net, recipe.optimiser)
        set_training(self.net, recipe.optimiser)
        self.reader = Loader(self.data.photos, recipe.images, recipe.seed, device)
        self.average = None if recipe.ema is None else EMA(self.net, recipe.ema)
        self.health = CollapseMonitor(recipe.loss)
        self.step = self.epoch = self.position = 0
        self.tuples: Tensor | None = None
        self.best = float("-inf")
        self.collapsed = False
        self.run = Run.open(
            folder,
            recipe,
            resume=resume,
            keep=recipe.keep,
            writes=self.here.leads,
            may_change=recipe.may_change(),
        )
        self.bar = Bar(self.steps, shown=progress and self.here.leads)
        state = self.run.latest()
        if state is not None:
            self.load(state)
        # Only now: it may copy what is frozen.
        self.trainee = TrainableNet(self.net, recipe.compute, recipe.images.augment)
        self.model = self._distributed()

    def fit(self) -> dict[str, Any]:
        """Train to the end; the best and the last state are left as files."""
        with self.run, self.bar:
            self._begin()
            while self.step < self.steps:
                if self.tuples is None:
                    self._mine()
                self._train_epoch()
                self.epoch, self.position, self.tuples = self.epoch + 1, 0, None
                self._end_epoch()
            return self._finish()

    def _begin(self) -> None:
        if self.step:
            return
        if self.origin["trunk"] == "random" and self.recipe.optimiser.batch_norm == "trained":
            settle_batch_norms(self.data, self.reader, self.trainee, self.recipe)
        if self.origin["whitening"].startswith(COMPUTED):
            self.net.eval()
            learn_whitening(self.data, self.reader, self.trainee, self.recipe)
            set_training(self.net, self.recipe.optimiser)
        if self.recipe.ema is not None:
            self.average = EMA(self.net, self.recipe.ema)
        learning = sum(p.numel() for p in self.net.parameters() if p.requires_grad)
        origin = {f"from_{name}": source for name, source in self.origin.items()}
        self.run.log(0, photos=len(self.data), parameters=learning, **origin)
        if self.origin["trunk"] == "random" and frozen_stages(self.net):
            self._warn(
                "The trunk starts at random and does not all learn: name a trained network with "
                "network.start or network.features, or set optimiser.trunk.all=1."
            )
        if self.steps <= self.recipe.schedule.warmup:
            self._warn(
                f"All {self.steps} steps of the run are within the warm-up of the learning rate: "
                f"train for longer, or set schedule.warmup={self.steps // 10}."
            )
        if self.held is not None:
            self._validate()

    def _mine(self) -> None:
        seed_everything(self.recipe.seed + self.epoch)
        self.bar.say(f"Mining for epoch {self.epoch + 1}")
        self.net.eval()
        mined = mine_epoch(self.data, self.reader, self.trainee, self.recipe, self.epoch)
        set_training(self.net, self.recipe.optimiser)
        self.tuples = mined.tuples
        if self.here.leads:
            self.run.log(self.step, epoch=self.epoch, **mined.figures)
            self.run.image(self.step, "tuples", contact_sheet(self.data.photos, self.tuples))

    def _train_epoch(self) -> None:
        assert self.tuples is not None
        batch, share = self.recipe.batch, self.recipe.batch // self.here.size
        steps = min(self.steps_per_epoch, self.position + self.steps - self.step)
        numbers = [
            step * batch + self.here.rank * share + n
            for step in range(self.position, steps)
            for n in range(share)
        ]
        landmarks = torch.from_numpy(self.data.landmarks)[self.tuples].to(self.device)
        for read in self.reader.batches(self.tuples, numbers, share, self.epoch):
            first = self.position * batch + self.here.rank * share
            self._step(read, landmarks[first : first + share])
            every = self.recipe.save_every
            last = self.position == self.steps_per_epoch or self.step == self.steps
            if every and self.step % every == 0 and not last:
                self.run.save(self.step, self.state())

    def _step(self, batch: TupleBatch, landmarks: Tensor) -> None:
        self.step, self.position = self.step + 1, self.position + 1
        place = self.epoch * self.steps_per_epoch + self.position - 1
        set_learning_rate(
            self.optimiser,
            self.recipe.schedule,
            place,
            steps=self.steps,
            steps_per_epoch=self.steps_per_epoch,
        )
        self.optimiser.zero_grad(set_to_none=True)
        numbers = self._gradients(batch, landmarks).numbers()
        check_finite(numbers, self.step)
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        clip = self.recipe.optimiser.clip or float("inf")
        length = float(nn.utils.clip_grad_norm_(parameters, clip))
        if not isfinite(length):
            check_finite({"loss": length}, self.step)
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.net)
        self._report(numbers, length)

    def _gradients(self, batch: TupleBatch, landmarks: Tensor) -> Terms:
        """Leave the gradients of a batch's loss in the parameters."""
        seed = (self.recipe.seed, self.step, self.here.rank)
        everybody = distributed.collect(landmarks)
        order, pieces = batch.order.to(self.device), self.recipe.compute.pieces
        if pieces == 1:
            rows = self.model(batch.groups, generator(*seed))
            terms = self._terms(rows[order], everybody)
            torch.autograd.backward(terms.total)
            return terms
        parts = [part for group in batch.groups for part in torch.chunk(group, pieces)]
        with torch.no_grad():
            rows = torch.cat(
                [self.trainee([part], generator(*seed, n)) for n, part in enumerate(parts)]
            )
        rows.requires_grad_()
        terms = self._terms(rows[order], everybody)
        (gradient,) = torch.autograd.grad(terms.total, rows)
        of_parts = torch.split(gradient, [len(part) for part in parts])
        for n, (part, mine) in enumerate(zip(parts, of_parts, strict=True)):
            with self._unless(last=n + 1 == len(parts)):
                torch.autograd.backward(self.model([part], generator(*seed, n)), mine)
        return terms

    def _unless(self, *, last: bool) -> Any:
        """Processes talk about gradients once a step, after the last piece."""
        together = isinstance(self.model, nn.parallel.DistributedDataParallel)
        return self.model.no_sync() if together and not last else nullcontext()  # type: ignore[operator]

    def _terms(self, rows: Tensor, landmarks: Tensor) -> Terms:
        return objective(distributed.gather(rows), landmarks, self.recipe.loss)

    def _report(self, numbers: dict[str, float], length: float) -> None:
        trouble = self.health.look(numbers)
        if trouble is not None and not self.collapsed:
            self._warn(trouble)
        self.collapsed = trouble is not None
        if self.step % self.recipe.log_every == 0 or self.step == self.steps:
            self.run.log(
                self.step,
                epoch=self.epoch,
                **numbers,
                gradient=length,
                rate=self.optimiser.param_groups[-1]["lr"],
                collapsed=self.collapsed,
            )
        self.bar.advance(self.step, f"Epoch {self.epoch + 1}, loss {numbers['loss']:.4g}")
        if trouble is not None and self.recipe.stop_on_collapse:
            self.run.save(self.step, self.state())
            raise SolarError(trouble)

    def _warn(self, sentence: str) -> None:
        self.run.log(self.step, warning=sentence)
        if self.here.leads:
            self.bar.warn(sentence)

    def _end_epoch(self) -> None:
        last = self.step == self.steps
        best = False
        if self.held is not None and (last or self.epoch % self.recipe.validation.every == 0):
            best = self._validate()
        self.run.save(self.step, self.state(), best=best)

    def _validate(self) -> bool:
        """Whether the network, as it would be used, is better than it ever was."""
        assert self.held is not None
        self.bar.say("Validating")
        score = torch.zeros((), dtype=torch.float64, device=self.device)
        if self.here.leads:
            with self._used():
                found = validate(self.net, self.held, self.recipe.validation)
            self.run.log(self.step, epoch=self.epoch, **found)
            score.fill_(found["mAP"])
        value = float(distributed.share(score))
        if value <= self.best:
            return False
        self.best = value
        self._write("best")
        return True

    def _finish(self) -> dict[str, Any]:
        self._write("last")
        if self.held is None:
            self._write("best")
        if bad := self.reader.unreadable:
            first = next(iter(bad.values()))
            self._warn(f"Photos that could not be read were replaced, {len(bad)} in all: {first}")
        return {
            "run": str(self.run.folder),
            "steps": self.step,
            "model": str(self.run.folder / "best.safetensors"),
            "mAP": self.best if isfinite(self.best) else None,
            "unreadable": len(self.reader.unreadable),
        }

    def _write(self, name: str) -> None:
        if self.here.leads:
            with self._used():
                save(self.net, self.run.folder / f"{name}.safetensors")

    def _used(self) -> AbstractContextManager[None]:
        """The weights that a user gets: the running average, if there is one."""
        return nullcontext() if self.average is None else self.average.applied(self.net)

    def _distributed(self) -> nn.Module:
        if self.here.size == 1:
            return self.trainee
        on_gpu = self.device.type == "cuda"
        return nn.parallel.DistributedDataParallel(
            self.trainee,
            device_ids=[self.device.index] if on_gpu else None,
            broadcast_buffers=self.recipe.optimiser.batch_norm == "trained",
        )

    def state(self) -> State:
        """Everything that decides how the run goes on."""
        return {
            "network": {name: value.cpu() for name, value in self.net.state_dict().items()},
            "optimiser": self.optimiser.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "health": self.health.state_dict(),
            "collapsed": self.collapsed,
            "step": self.step,
            "epoch": self.epoch,
            "position": self.position,
            "tuples": self.tuples,
            "best": self.best,
            "random": capture_random(),
        }

    def load(self, state: State) -> None:
        """Go on from a `state`."""
        self.net.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.health.load_state_dict(state["health"])
        self.collapsed = state["collapsed"]
        self.step, self.epoch, self.position = (
            state[name] for name in ("step", "epoch", "position")
        )
        self.tuples, self.best = state["tuples"], state["best"]
        restore_random(state["random"])
        self.bar.advance(self.step, "Going on")


def _open_data(recipe: RetrievalRecipe) -> tuple[TrainingSet, Labelled | None]:
    data = recipe.data
    wanted: list[Part] = [data.part]
    if data.part == "train" and _holds_out(data.source):
        wanted.append("val")
    found = [
        read_training_set(data.source, root=data.root, part=part, missing=data.missing)
        for part in wanted
    ]
    if data.drop_unverified:
        found = [one.verified(", ".join(data.source)) for one in found]
    return open_validation(recipe.validation, found[0], recipe.seed, *found[1:])


def _holds_out(sources: Sequence[str]) -> bool:
    """Whether the data is a file of `solar data build --val-fraction`."""
    file = Path(sources[0])
    return len(sources) == 1 and file.suffix == ".json" and read_training_file(file).holds_out


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
