"""Distillation: a network learns to imitate others on unlabelled photos."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from solar.datasets.seeds import generator
from solar.errors import SolarError
from solar.files import replacing
from solar.models import RetrievalNet, save
from solar.nn import l2_normalize, pca_whitening, within_whitening
from solar.training.augment import Augmentation, augment
from solar.training.distill.image_cache import ImageCache, Order, Squares, batches, cache_images
from solar.training.distill.loss import Imitator, distances
from solar.training.distill.recipe import DistillRecipe
from solar.training.distill.teacher import load_teachers, tune
from solar.training.loop import Trainer, launch
from solar.training.objective import Terms
from solar.training.retrieval.validate import Held, open_held, validate

_WHITENED = 20_000  # photos for PCA

Batch = tuple[Tensor, Tensor | None]
"""Views of photos in 0..1, and their labels if there are several views."""


def distill(
    recipe: DistillRecipe,
    *,
    run: str | Path,
    resume: bool = False,
    output: str | Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Train a student, or resume its run, and copy it to `output`.

    The seed and the number of a step decide its photos, their size and augmentation, so that a
    resumed run gives the same student.

    Returns:
        `run`, `steps`, `finished`, `model` (the student's file), `photos`, `unreadable`, `places`
        and `pooled` (the last cosine distances), and `mAP` if there was a validation.
    """
    summary = launch(DistillTrainer, recipe, run, resume=resume, progress=progress)
    if output is not None:
        with replacing(output) as temporary:
            shutil.copyfile(summary["model"], temporary)
        summary["model"] = str(output)
    return summary


class DistillTrainer(Trainer[DistillRecipe, Batch]):
    """A run of `task: distill`; the network is a student with its projections."""

    recipe_class = DistillRecipe
    net: Imitator
    held: Held | None

    def prepare(self) -> None:
        """Load the teacher and build the student."""
        recipe = self.recipe
        self.steps, self.validate_every = recipe.steps, recipe.validation.every
        self.teacher = load_teachers(
            recipe.teacher, device=self.device, sizes=recipe.sizes, shares=recipe.shares
        )
        self.net = Imitator(recipe.student, self.teacher)
        if self.device.type == "cuda":
            self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            torch.backends.cudnn.benchmark = True  # few different shapes
        if recipe.compute.compile:
            self.net.student.backbone.compile()
        self.held = open_held(recipe.validation) if recipe.validation.source else None

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Biases and norms do not decay."""
        (group,) = super().parameter_groups()
        decaying = [p for p in group["params"] if p.dim() > 1]
        others = [p for p in group["params"] if p.dim() <= 1]
        return [{"params": decaying}, {"params": others, "weight_decay": 0.0}]

    def ready(self) -> None:
        """Read all photos into memory."""
        recipe, data = self.recipe, self.recipe.data
        self.caches = cache_images(
            data.source,
            data.size,
            cache=data.cache,
            device=self.device,
            workers=data.workers or None,
            progress=lambda step, done, total: self.bar.say(f"{step}, {done} of {total}"),
        )
        self.failures = [failure for images in self.caches for failure in images.failures]
        if self.failures:
            name, reason = self.failures[0]
            count = len(self.failures)
            self.bar.warn(f"Skipped {count} photos that cannot be read, such as {name}: {reason}")
        self.order = Order(self.caches, data.repeat, recipe.batch, recipe.seed)
        self.draw = OrderWithLandmarks(self.order, self.caches, recipe)
        if recipe.whiten_teacher:
            self._whiten_teacher()
        if recipe.tune.steps:
            self._tune_teacher(self.run.folder / "teacher.safetensors")
            self._whiten_teacher()

    def _whiten_teacher(self) -> None:
        with self.recipe.compute.computing(self.device):
            self.teacher.whiten(self._plain(), self.recipe.whiten_teacher)

    def _tune_teacher(self, file: Path) -> None:
        """Fine-tune the teacher, or load it if the run is resumed."""
        recipe, backbone = self.recipe, self.teacher.backbone
        if self.step and file.exists():
            backbone.load_state_dict(load_file(file, device=str(self.device)))
            return
        self.bar.say("Tuning the teacher")
        first, last = tune(
            self.teacher,
            self._drawn(0, recipe.tune.steps, 2, 2),
            recipe.tune,
            lambda: recipe.compute.computing(self.device),
        )
        self.run.log(self.step, teacher_alike_before=first, teacher_alike=last)
        if self.here.leads:
            with replacing(file) as temporary:
                save_file(dict(backbone.state_dict()), temporary)

    def begin(self) -> None:
        """Start the contrast's projection from a whitening, if the student is pretrained."""
        loss = self.recipe.loss
        if self.recipe.student.start is not None and (loss.views > 1 or loss.relation):
            whiten = pca_whitening(self._described()).linear()
            self.net.contrast.load_state_dict(whiten.state_dict())

    def batches(self) -> Iterator[Batch]:
        """Views of the photos of the order and of landmarks."""
        for batch in self._drawn(self.step, self.steps, self.recipe.loss.views):
            self.shape = batch[0].shape
            yield batch

    def _drawn(self, first: int, last: int, times: int, *stream: int) -> Iterator[Batch]:
        """Augmented views of the photos of steps `first` to `last` − 1."""
        recipe = self.recipe
        for step, parts in enumerate(batches(self.caches, self.draw, first, last), first):
            chance = generator(recipe.seed, step, *stream)
            images = views(parts, recipe.augment, recipe.sizes, chance, times)
            shown = self.draw.shown(step).repeat(2) if times > 1 else None
            yield images, None if shown is None else shown.to(self.device, non_blocking=True)

    def terms(self, batch: Batch) -> Terms:
        """The distillation losses."""
        images, shown = batch
        with self.recipe.compute.computing(self.device):
            return distances(self.net, self.teacher, images, self.recipe.loss, shown)

    def set_lr(self, first: int = 0) -> None:
        """The schedule begins after the projections' warm-up at the full rate."""
        warmup = self.recipe.warmup_projections
        if self.step >= warmup:
            super().set_lr(warmup)

    def before_update(self) -> None:
        """Freeze the student while projections warm up."""
        if self.step < self.recipe.warmup_projections:
            for parameter in self.net.student.parameters():
                parameter.grad = None

    def validate(self) -> tuple[float, dict[str, float]]:
        """Retrieval with the student on labelled photos."""
        assert self.held is not None
        found = validate(self.net.student, self.held, self.recipe.validation)
        return found["mAP"], found

    def extra_figures(self) -> dict[str, float]:
        """Image size and photos per second."""
        speed = round(self.meter.speed * self.shape[0], 1)
        return {"size": self.shape[-1], "photos_per_second": speed}

    def write(self, name: str) -> None:
        """Do nothing: `finish` writes the student."""

    def architecture(self) -> None:
        """None: the student of a checkpoint is not whitened yet."""

    def finish(self) -> dict[str, Any]:
        """Write the best student, averaged and whitened."""
        self.bar.say("Finishing the student")
        best = self.run.best() if self.held is not None else None
        if best is not None:
            self.load_weights(best)
        with self.used():
            student = self._whitened()
        return {
            "model": str(save(student, self.run.folder / "student.safetensors")),
            "photos": sum(map(len, self.caches)),
            "unreadable": len(self.failures),
            "places": self.figures.get("places"),
            "pooled": self.figures.get("pooled"),
            **({"mAP": self.best} if isfinite(self.best) else {}),
        }

    def _whitened(self) -> RetrievalNet:
        wanted, plain = self.recipe.student, self.net.student
        if wanted.whitening == "none":
            layer = None
        elif wanted.whitening == "teacher":
            layer = self.net.pooled
        else:
            layer = pca_whitening(self._described(), wanted.power).linear(wanted.dim)
            if wanted.whitening == "places":
                self._even_out(layer)
        dim = None if layer is None else layer.out_features
        student = RetrievalNet(replace(plain.config, whitening=layer is not None, dim=dim))
        state = plain.state_dict()
        if layer is not None:
            state |= {f"whiten.{name}": value for name, value in layer.state_dict().items()}
        student.load_state_dict(state)
        return student.eval()

    @torch.no_grad()
    def _even_out(self, layer: torch.nn.Linear) -> None:
        """Whiten the differences within landmarks, too."""
        known = self.draw.known
        rows = l2_normalize(layer(self._described(known).cpu()))  # where the layer is
        labels = torch.unique(self.draw.labels[known], return_inverse=True)[1]
        matrix = within_whitening(rows, labels).to(layer.weight)
        layer.weight.copy_(matrix @ layer.weight)
        layer.bias.copy_(matrix @ layer.bias)

    @torch.no_grad()
    def _described(self, known: Tensor | None = None) -> Tensor:
        self.net.eval()
        found = []
        for images in self._plain(known):
            with self.recipe.compute.computing(self.device):
                found.append(self.net.describe(images))
        return torch.cat(found)

    def _plain(self, known: Tensor | None = None) -> Iterator[Tensor]:
        """The given photos or 20,000, unchanged, at the largest size."""
        sizes, size = (max(self.recipe.sizes),), self.recipe.batch
        numbers: Callable[[int], Tensor] = self.order
        count = min(_WHITENED, self.order.epoch)
        if known is not None:
            numbers, count = torch.split(known, size).__getitem__, len(known)
        for step, parts in enumerate(batches(self.caches, numbers, 0, -(-count // size))):
            yield views(parts, Augmentation(), sizes, generator(0, step))


def views(
    parts: Sequence[Squares],
    changes: Augmentation,
    sizes: Sequence[int],
    chance: torch.Generator,
    times: int = 1,
) -> Tensor:
    """Augment photos, all at one random size: (times · batch, 3, size, size)."""
    size = sizes[int(torch.randint(len(sizes), (1,), generator=chance))]
    changed = [
        augment(part.pixels, changes, chance, size=size, aspects=part.aspects)
        for _ in range(times)
        for part in parts
    ]
    return torch.cat(changed)


class OrderWithLandmarks:
    """The photos of each step: those of the order, and of landmarks."""

    def __init__(self, order: Order, caches: Sequence[ImageCache], recipe: DistillRecipe) -> None:
        self.order, self.wanted, self.seed = order, recipe.landmarks, recipe.seed
        names = [name for images in caches for name in images.photos.names]
        # A photo without a label matches no other.
        self.labels = torch.arange(len(names))
        self.kinds = [
            (self._groups(names, start), photos) for start, photos in self.wanted.photos.items()
        ]

    @property
    def known(self) -> Tensor:
        """All photos of landmarks, sorted."""
        known: Tensor = torch.unique(torch.cat([g for groups, _ in self.kinds for g in groups]))
        return known

    def _groups(self, names: Sequence[str], start: str) -> list[Tensor]:
        by_folder: dict[str, list[int]] = {}
        for number, name in enumerate(names):
            if name.startswith(start):
                by_folder.setdefault(name.rpartition("/")[0], []).append(number)
        if len(by_folder) < 2:
            raise SolarError(
                f"landmarks.photos names {start!r}, but photos whose names start with it are in "
                f"{len(by_folder)} folders: contrast needs two landmarks or more."
            )
        groups = [torch.tensor(group) for group in by_folder.values()]
        for group in groups:
            self.labels[group] = int(group[0])
        return groups

    def __call__(self, step: int) -> Tensor:
        """The photos of a step, sorted."""
        chance = generator(self.seed, step, 1)
        drawn = [self._drawn(groups, photos, chance) for groups, photos in self.kinds]
        return torch.cat([self.order(step), *drawn]).sort().values

    def _drawn(self, groups: list[Tensor], photos: int, chance: torch.Generator) -> Tensor:
        """Draw up to `photos`, `each` of a landmark, or fewer if it has fewer."""
        found: list[Tensor] = []
        for number in torch.randperm(len(groups), generator=chance).tolist():
            group = groups[number]
            found.append(group[torch.randperm(len(group), generator=chance)[: self.wanted.each]])
            if sum(map(len, found)) >= photos:
                break
        return torch.cat(found)[:photos]

    def shown(self, step: int) -> Tensor:
        """Labels of the photos of a step."""
        return self.labels[self(step)]
