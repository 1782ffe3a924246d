"""Settings for distillation."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from solar.errors import SolarError
from solar.training.augment import Augmentation
from solar.training.recipe import build, bundled_recipes, read_settings
from solar.training.schedule import Schedule
from solar.training.shared_recipe import Data, Optimiser, PhotoValidation, Recipe


@dataclass(frozen=True)
class DistillData(Data):
    """Photos without labels.

    Attributes:
        source: Folders, .txt lists, .tar shards or photos.
        size: Largest side at which photos are kept in memory, see `distill.image_cache`.
        cache: Where: "device", "host", or "none" to decode them again each time.
        repeat: Times per epoch that photos whose names start so are seen: {"train/": 4}.
        workers: Processes that decode; 0: one per core.
    """

    size: int = 224
    cache: Literal["device", "host", "none"] = "device"
    repeat: dict[str, int] = field(default_factory=dict)
    workers: int = 0


@dataclass(frozen=True)
class Student:
    """What learns.

    Attributes:
        backbone: resnet18 … resnet152, vgg16, alexnet.
        attention: Layers with second-order attention, such as "45".
        start: A network whose backbone it starts from, as `solar.load` takes it; default: random.
        whitening: "none" leaves the pooled vector as it is; "pca" whitens it by what the training
            photos look like at the end; "places" does that, and then lets count for less how photos
            of one landmark differ (`solar.nn.within_whitening`); "teacher" keeps the layer that was
            trained to give the teacher's descriptor, so that the two can be compared.
        dim: Length of a descriptor after these two; default: the backbone's channels.
        power: How far "pca" whitens, from 0 (not at all) to 1 (`solar.nn.pca_whitening`).
        size: Longest side of the photos it will describe, unless its user says otherwise.
        p: The exponent of GeM, which stays.
    """

    backbone: str = "resnet18"
    attention: str = ""
    start: str | None = None
    whitening: Literal["none", "pca", "places", "teacher"] = "none"
    dim: int | None = None
    power: float = 1.0
    size: int = 1024
    p: float = 3.0

    def __post_init__(self) -> None:
        if self.dim is not None and self.whitening not in ("pca", "places"):
            raise SolarError("student.dim is for student.whitening pca and places only.")
        if not 0 <= self.power <= 1:
            raise SolarError(f"student.power must be from 0 to 1, not {self.power:g}.")
        if self.size < 32:
            raise SolarError(f"student.size must be 32 or more, not {self.size}.")


@dataclass(frozen=True)
class Landmarks:
    """Labelled photos, for `loss.alike`.

    Attributes:
        start: Those whose names start so; the folder in a name is the landmark.
        photos: Of them in every step, beside those whose turn it is.
        each: Of one landmark in a step; fewer where it has fewer.
        more: Others, by the start of their names, and how many of them in every step: {"seq/": 32}.
    """

    start: str = ""
    photos: int = 0
    each: int = 8
    more: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.photos < 0 or self.each < 2 or self.photos % self.each:
            raise SolarError("landmarks.photos must be a multiple of landmarks.each, 2 or more.")
        if min(self.more.values(), default=2) < 2:
            raise SolarError("landmarks.more must ask for 2 photos or more of each kind.")

    @property
    def kinds(self) -> dict[str, int]:
        """Photos in a step, by the start of their names."""
        return {**({self.start: self.photos} if self.photos else {}), **self.more}


@dataclass(frozen=True)
class DistillLoss:
    """Weights of what is minimised.

    Attributes:
        places: Cosine distance to the teacher's map, at every location.
        pooled: Cosine distance to the teacher's descriptor.
        relation: How differently student and teacher say which photos of the batch resemble each
            photo: the Kullback-Leibler divergence of softmaxes over their similarities.
        alike: Contrast of two views of each photo, and of photos of one landmark, with all others
            in the batch (`solar.losses.info_nce`), behind a projection of its own.
        second_order: The paper's second-order similarity loss on the same descriptors; negatives
            are the nearest in the batch.
        temperature: Of the contrast and the relation.
    """

    places: float = 1.0
    pooled: float = 1.0
    relation: float = 0.0
    alike: float = 0.0
    second_order: float = 0.0
    temperature: float = 0.07

    @property
    def views(self) -> int:
        """How often a photo is shown in a step."""
        return 2 if self.alike or self.second_order else 1


@dataclass(frozen=True)
class Tuning:
    """How the first teacher learns before it teaches; photos and landmarks are the student's.

    Attributes:
        steps: How many it takes; 0 leaves the teacher as it is.
        lr: Of AdamW, at its highest.
        keep: Weight of the cosine distance to what the teacher saw before, at every location: so
            that it does not forget what the few landmarks cannot teach.
        alike: Weight of the contrast, as for the student.
        second_order: Weight of the second-order similarity loss.
        temperature: Of the contrast.
        ema: How much of the running average stays at each step; the average teaches.
    """

    steps: int = 0
    lr: float = 1.5e-4
    keep: float = 1.0
    alike: float = 0.3
    second_order: float = 10.0
    temperature: float = 0.07
    ema: float = 0.99

    def __post_init__(self) -> None:
        if self.steps < 0 or self.lr <= 0:
            raise SolarError(
                f"tune.steps must be 0 or more (not {self.steps}) and tune.lr above 0 "
                f"(not {self.lr:g})."
            )


@dataclass(frozen=True, kw_only=True)
class DistillRecipe(Recipe):
    """Everything that decides what a distillation gives.

    Weight decay is not of biases and norms; a batch counts photos, without those of `landmarks`.

    Attributes:
        teacher: As `distill.teacher.load_teacher` takes it. Of several, the first one's map
            is imitated, and all their descriptors side by side.
        whiten_teacher: How far what the first teacher sees is whitened, by what 20,000 of the
            photos look like: from 0, as it is, to 1 (`distill.teacher.Teacher.whiten`).
        tune: Whether the first teacher learns to tell the landmarks apart before it teaches.
        augment: How photos are changed; teacher and student see the same.
        sizes: Sides of the squares shown, one drawn for each step.
        warmup_projections: Steps at the beginning in which nothing but projections learns: for a
            student that starts from another.
    """

    data: DistillData
    teacher: tuple[str, ...]
    whiten_teacher: float = 0.0
    student: Student = field(default_factory=Student)
    augment: Augmentation = field(
        default_factory=lambda: Augmentation(crop=0.6, stretch=0.2, flip=0.5, colour=0.3)
    )
    loss: DistillLoss = field(default_factory=DistillLoss)
    landmarks: Landmarks = field(default_factory=Landmarks)
    tune: Tuning = field(default_factory=Tuning)
    optimiser: Optimiser = field(
        default_factory=lambda: Optimiser("adamw", 2e-3, 0.02, nesterov=True, clip=5.0)
    )
    schedule: Schedule = field(default_factory=lambda: Schedule("cosine", warmup=200))
    validation: PhotoValidation = field(default_factory=lambda: PhotoValidation(size=224))
    task: Literal["distill"] = "distill"
    sizes: tuple[int, ...] = (128, 160, 192, 224)
    batch: int = 256
    steps: int = 5000
    warmup_projections: int = 0
    ema: float | None = 0.999
    save_every: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("save_every", "data.size", "validation.every")
        if not self.teacher:
            raise SolarError("teacher names no model.")
        if not 0 <= self.whiten_teacher <= 1:
            raise SolarError(f"whiten_teacher must be from 0 to 1, not {self.whiten_teacher:g}.")
        if self.student.whitening == "teacher" and (self.whiten_teacher or len(self.teacher) > 1):
            raise SolarError(
                "student.whitening teacher is for one teacher, taken as it is: name one, and "
                "leave whiten_teacher at 0."
            )
        if self.student.whitening == "places" and not self.landmarks.kinds:
            raise SolarError(
                "student.whitening places needs landmarks.photos, which gives the labels."
            )
        if self.tune.steps and not (self.whiten_teacher and self.landmarks.kinds):
            raise SolarError("tune.steps needs whiten_teacher above 0 and landmarks.photos.")
        for name, times in self.data.repeat.items():
            if times < 1:
                raise SolarError(f"data.repeat of {name} must be 1 or more, not {times}.")
        if self.batch < 2:
            raise SolarError("batch must be 2 or more: batch norm cannot learn from one photo.")
        if not self.sizes or min(self.sizes) < 32:
            raise SolarError(f"sizes must be 32 or more each, not {list(self.sizes)}.")
        if not 0 <= self.warmup_projections < self.steps:
            raise SolarError(
                "warmup_projections must be 0 or more and below steps, "
                f"not {self.warmup_projections}."
            )

    def may_change(self) -> tuple[str, ...]:
        """As for every recipe; and photos may be kept and the student judged in another way."""
        validation = (f"validation.{one.name}" for one in fields(PhotoValidation))
        return (*super().may_change(), "data.cache", "data.workers", *validation)


def command_recipe(
    arguments: Sequence[str], options: Mapping[str, str | Sequence[str] | None] | None = None
) -> DistillRecipe:
    """The recipe of a command line; a SolarError if it lacks photos or a teacher.

    Args:
        arguments: In any order: at most one recipe (.yaml, or a bundled one's name), photos, and
            key=value settings.
        options: Settings by dotted name, on top of those; None where one is not given.
    """
    files = [one for one in arguments if _is_recipe(one)]
    if len(files) > 1:
        raise SolarError(f"Two recipes are given, {files[0]} and {files[1]}: give one.")
    rest = [one for one in arguments if one not in files]
    overrides = [one for one in rest if "=" in one and not Path(one).exists()]
    photos = [one for one in rest if one not in overrides]
    given = {**(options or {}), "data.source": photos or None}
    settings = read_settings(files[0] if files else os.devnull, overrides, given)
    where = files[0] if files else "The command"
    if (task := settings.get("task", "distill")) != "distill":
        raise SolarError(f"{where} is a recipe for {task}: give it to solar train.")
    if not settings.get("data", {}).get("source"):
        raise SolarError("No photos are given: name folders, lists or tar shards of them.")
    if "teacher" not in settings:
        raise SolarError("No teacher is given: name one with `teacher=`.")
    return build(DistillRecipe, settings, where)


def _is_recipe(argument: str) -> bool:
    """Whether it is a recipe: photos of the same name as a bundled one come first."""
    if argument.endswith((".yaml", ".yml")):
        return True
    return argument in bundled_recipes() and not Path(argument).exists()
