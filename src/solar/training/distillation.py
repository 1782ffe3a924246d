"""Distillation: a network learns to see what another one sees, on photos that nobody labelled."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from solar.datasets.image_cache import ImageCache, Order, Squares, batches, cache_images
from solar.datasets.seeds import generator
from solar.errors import SolarError
from solar.models import RetrievalNet, save
from solar.models.inference import best_device
from solar.nn import pca_whitening
from solar.training.augment import Augmentation, augment
from solar.training.distill_recipe import DistillRecipe
from solar.training.ema import EMA
from solar.training.imitation import Distances, Imitator, distances
from solar.training.progress import Bar
from solar.training.random_state import capture_random, restore_random, seed_everything
from solar.training.recipe import read_recipe
from solar.training.retrieval_recipe import Validation
from solar.training.run import Run
from solar.training.schedule import set_learning_rate
from solar.training.teacher import Teacher, load_teacher
from solar.training.validate import Labelled, open_labelled, validate

_WHITENED = 20_000  # photos that PCA looks at


def train(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    run: str | Path,
    resume: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Distil as a recipe file says; see `distill`."""
    recipe = read_recipe(DistillRecipe, path, overrides)
    return distill(recipe, run=run, resume=resume, progress=progress)


def distill(
    recipe: DistillRecipe,
    *,
    run: str | Path,
    resume: bool = False,
    output: str | Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Teach a student, from its beginning or from where the run's last checkpoint left it.

    Each step draws its photos, their size and their changes from the seed and its own number, so
    that an interrupted run goes on as if it had not been.

    Args:
        recipe: What to do.
        run: Folder for checkpoints, figures and the student.
        resume: Go on instead of refusing a folder that holds a run.
        output: Write the student here, too.
        progress: Draw a bar with the time left on standard error, if that is a terminal.

    Returns:
        `run`, `steps` taken, `finished`, `model` (the student's file), `photos`, `unreadable`,
        `places` and `pooled` (the last cosine distances), and `mAP` if there was a validation.

    Raises:
        SolarError: Recipe, photos or teacher are wrong, or the loss is no number any more.
    """
    deadline = monotonic() + (recipe.compute.max_seconds or float("inf"))
    device = torch.device(recipe.compute.device or best_device())
    seed_everything(recipe.seed)
    teacher = load_teacher(recipe.teacher, device=device, sizes=recipe.sizes)
    imitator = Imitator(recipe.student, teacher).to(device)
    if device.type == "cuda":
        imitator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        torch.backends.cudnn.benchmark = True  # there are only as many shapes as sizes
    if recipe.compute.compile:
        imitator.student.backbone.compile()
    with (
        Run.open(
            run, recipe, resume=resume, keep=recipe.keep, may_change=recipe.may_change()
        ) as log,
        Bar(recipe.steps, shown=progress) as bar,
    ):
        packs = cache_images(
            recipe.data.source,
            recipe.data.size,
            cache=recipe.data.cache,
            device=device,
            workers=recipe.data.workers or None,
            progress=lambda done, total: bar.say(f"Reading photos, {done} of {total}"),
        )
        _warn_of_failures(packs, bar)
        course = _Course(recipe, teacher, imitator, packs, log, device)
        course.go(deadline, bar)
        bar.say("Finishing the student")
        student = course.finished_student()
        model = save(student, Path(run) / "student.safetensors")
        if output is not None:
            save(student, output)
        return {**course.summary(), "run": str(run), "model": str(output or model)}


class _Course:
    """One run: everything that changes while it lasts."""

    def __init__(
        self,
        recipe: DistillRecipe,
        teacher: Teacher,
        imitator: Imitator,
        packs: list[ImageCache],
        run: Run,
        device: torch.device,
    ) -> None:
        self.recipe, self.teacher, self.imitator, self.packs = recipe, teacher, imitator, packs
        self.run, self.device = run, device
        self.optimiser = _optimiser(recipe, imitator, device)
        self.average = EMA(imitator, recipe.ema)
        self.order = Order(packs, recipe.data.repeat, recipe.batch, recipe.seed)
        self.draw = OrderWithLandmarks(self.order, packs, recipe)
        self.step, self.best = 0, float("-inf")
        self.last: dict[str, float] = {}
        self.labelled: Labelled | None = None
        if recipe.validation.source:
            self.labelled = open_labelled(recipe.validation.source)
        state = run.latest()
        if state is not None:
            self._restore(state)
        elif recipe.student.start is not None and recipe.loss.views > 1:
            whiten = pca_whitening(self._described(_WHITENED)).linear()
            imitator.contrast.load_state_dict(whiten.state_dict())

    def go(self, deadline: float, bar: Bar) -> None:
        """Take the steps that are left, or as many as there is time for."""
        recipe = self.recipe
        self.imitator.train()
        began, first = monotonic(), self.step
        for parts in batches(self.packs, self.draw, self.step, recipe.steps):
            chance = generator(recipe.seed, self.step)
            images = views(parts, recipe.augment, recipe.sizes, chance, recipe.loss.views)
            self._set_rate()
            shown = None
            if recipe.loss.views > 1:
                shown = self.draw.shown(self.step).repeat(2).to(self.device, non_blocking=True)
            with self._autocast():
                found = distances(self.imitator, self.teacher, images, recipe.loss, shown)
            self.optimiser.zero_grad(set_to_none=True)
            total = found.total(recipe.loss)
            total.backward()  # type: ignore[no-untyped-call]
            if recipe.optimiser.clip is not None:
                nn.utils.clip_grad_norm_(self.imitator.parameters(), recipe.optimiser.clip)
            if self.step < recipe.settle:
                for parameter in self.imitator.student.parameters():
                    parameter.grad = None
            self.optimiser.step()
            self.average.update(self.imitator)
            self.step += 1
            bar.advance(self.step, "Distilling")
            late = monotonic() > deadline
            saves = late or self._due(recipe.save_every)
            if saves or self._due(recipe.log_every):
                rate = (self.step - first) * len(images) / (monotonic() - began)
                self._log(found, total, images.shape[-1], rate)
            best = self._due(recipe.validation.every) and self._validate()
            if saves or best:
                self.run.save(self.step, self._state(), best=best)
            if late:
                return

    def _set_rate(self) -> None:
        """Projections that settle learn at full speed; then the schedule begins."""
        recipe, step = self.recipe, self.step - self.recipe.settle
        if step < 0:
            for group in self.optimiser.param_groups:
                group["lr"] = recipe.optimiser.rate
        else:
            steps = recipe.steps - recipe.settle
            set_learning_rate(self.optimiser, recipe.schedule, step, steps=steps)

    def _due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.recipe.steps

    def _autocast(self) -> AbstractContextManager[object]:
        wanted = self.recipe.compute.precision
        if wanted == "bf16" or (wanted == "auto" and self.device.type == "cuda"):
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def _log(self, found: Distances, total: Tensor, size: int, rate: float) -> None:
        loss = float(total.detach())
        if not isfinite(loss):
            raise SolarError(
                f"The loss is {loss} at step {self.step}: lower optimiser.rate, "
                f"and go on from the last checkpoint in {self.run.folder} or start again."
            )
        self.last = found.numbers()
        self.run.log(
            self.step,
            loss=loss,
            **self.last,
            size=size,
            rate=self.optimiser.param_groups[0]["lr"],
            photos_per_second=round(rate, 1),
        )

    def _validate(self) -> bool:
        """Measure the average; whether it is the best so far."""
        if self.labelled is None:
            return False
        wanted = self.recipe.validation
        settings = Validation(size=wanted.size, scales=wanted.scales)
        with self._averaged():
            found = validate(self.imitator.student, self.labelled, settings)
        self.run.log(self.step, **found)
        better = found["mAP"] > self.best
        self.best = max(found["mAP"], self.best)
        return better

    def _averaged(self) -> AbstractContextManager[None]:
        return self.average.applied(self.imitator) if self.recipe.ema else nullcontext()

    def _state(self) -> dict[str, Any]:
        return {
            "imitator": self.imitator.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average.state_dict(),
            "random": capture_random(),
            "best": self.best,
            "last": self.last,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.imitator.load_state_dict(state["imitator"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.average.load_state_dict(state["average"])
        restore_random(state["random"])
        self.step, self.best, self.last = self.run.step, state["best"], state["last"]

    def finished_student(self) -> RetrievalNet:
        """The student as it is used: averaged, the best if that is known, and whitened."""
        best = self.run.best() if self.labelled is not None else None
        if best is not None:
            self.imitator.load_state_dict(best["imitator"])
            self.average.load_state_dict(best["average"])
        with self._averaged():
            return self._whitened()

    def _whitened(self) -> RetrievalNet:
        wanted, plain = self.recipe.student, self.imitator.student
        if wanted.whitening == "none":
            layer = None
        elif wanted.whitening == "teacher":
            layer = self.imitator.projection.pooled
        else:
            layer = pca_whitening(self._described(_WHITENED), wanted.power).linear(wanted.dim)
        dim = None if layer is None else layer.out_features
        config = replace(plain.config, whitening=layer is not None, dim=dim)
        student = RetrievalNet(config)
        state = plain.state_dict()
        if layer is not None:
            state |= {f"whiten.{name}": value for name, value in layer.state_dict().items()}
        student.load_state_dict(state)
        return student.eval()

    @torch.no_grad()
    def _described(self, most: int) -> Tensor:
        """Descriptors of training photos as they are, from the middle and at the largest size."""
        sizes = (max(self.recipe.sizes),)
        steps = -(-min(most, self.order.epoch) // self.recipe.batch)
        self.imitator.eval()
        found = []
        for step, parts in enumerate(batches(self.packs, self.order, 0, steps)):
            images = views(parts, Augmentation(), sizes, generator(0, step))
            with self._autocast():
                found.append(self.imitator.describe(images))
        return torch.cat(found)

    def summary(self) -> dict[str, Any]:
        """What came out so far."""
        return {
            "steps": self.step,
            "finished": self.step == self.recipe.steps,
            "photos": sum(map(len, self.packs)),
            "unreadable": sum(len(one.failures) for one in self.packs),
            "places": self.last.get("places"),
            "pooled": self.last.get("pooled"),
            **({"mAP": self.best} if isfinite(self.best) else {}),
        }


def views(
    parts: Sequence[Squares],
    changes: Augmentation,
    sizes: Sequence[int],
    chance: torch.Generator,
    times: int = 1,
) -> Tensor:
    """Photos changed, all at one of the sizes: (times · batch, 3, size, size)."""
    size = sizes[int(torch.randint(len(sizes), (1,), generator=chance))]
    changed = [
        augment(part.pixels, changes, chance, size=size, aspects=part.aspects)
        for _ in range(times)
        for part in parts
    ]
    return torch.cat(changed)


class OrderWithLandmarks:
    """Which photos a step sees, and what they show.

    Args:
        order: Of the photos whose turn it is.
        packs: All photos.
        recipe: Says which of them are known, and how many of those come with every step.

    Raises:
        SolarError: Landmarks are asked for, but no photo's name starts as they do.
    """

    def __init__(self, order: Order, packs: Sequence[ImageCache], recipe: DistillRecipe) -> None:
        self.order, self.wanted, self.seed = order, recipe.landmarks, recipe.seed
        names = [name for one in packs for name in one.photos.names]
        # A photo that nobody knows shows nothing that another does.
        self.labels = torch.arange(len(names))
        self.groups: list[Tensor] = []
        if not self.wanted.photos:
            return
        by_folder: dict[str, list[int]] = {}
        for number, name in enumerate(names):
            if name.startswith(self.wanted.start):
                by_folder.setdefault(name.rpartition("/")[0], []).append(number)
        if len(by_folder) < 2:
            raise SolarError(
                f"landmarks.start is {self.wanted.start!r}, but photos whose names start so lie "
                f"in {len(by_folder)} folders: contrast needs two landmarks or more."
            )
        self.groups = [torch.tensor(group) for group in by_folder.values()]
        for group in self.groups:
            self.labels[group] = int(group[0])

    def __call__(self, step: int) -> Tensor:
        """Numbers of the photos, rising."""
        chance = generator(self.seed, step, 1)
        chosen = torch.randperm(len(self.groups), generator=chance)
        drawn = [
            group[torch.randint(len(group), (self.wanted.each,), generator=chance)]
            for group in (self.groups[n] for n in chosen[: self.wanted.photos // self.wanted.each])
        ]
        return torch.cat([self.order(step), *drawn]).sort().values

    def shown(self, step: int) -> Tensor:
        """What the photos show, as a number: alike where they show the same."""
        return self.labels[self(step)]


def _warn_of_failures(packs: Sequence[ImageCache], bar: Bar) -> None:
    failures = [failure for one in packs for failure in one.failures]
    if failures:
        name, reason = failures[0]
        bar.warn(f"{len(failures)} photos cannot be read and are left out, {name} first: {reason}")


def _optimiser(
    recipe: DistillRecipe, imitator: Imitator, device: torch.device
) -> torch.optim.Optimizer:
    learned = [p for p in imitator.parameters() if p.requires_grad]
    wanted = recipe.optimiser
    groups = [
        {"params": [p for p in learned if p.dim() > 1], "weight_decay": wanted.decay},
        {"params": [p for p in learned if p.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = device.type == "cuda"  # one kernel for all weights
    if wanted.kind == "sgd":
        return torch.optim.SGD(groups, wanted.rate, momentum=0.9, nesterov=True, fused=fused)
    return torch.optim.AdamW(groups, wanted.rate, fused=fused)
