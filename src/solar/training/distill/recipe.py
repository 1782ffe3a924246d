"""Settings for distillation."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from solar.errors import SolarError
from solar.models.retrieval_config import SCALES
from solar.training.augment import Augmentation
from solar.training.recipe import build, bundled_recipes, check_range, read_settings
from solar.training.schedule import Schedule
from solar.training.shared_recipe import Data, Optimiser, PhotoValidation, Recipe


@dataclass(frozen=True)
class DistillData(Data):
    """Photos without labels.

    Attributes:
        source: Folders, .txt lists, .tar shards or photos.
        size: Largest side of the squares kept in memory, see `distill.image_cache`.
        cache: "device", "host", or "none" to decode photos each time.
        repeat: Times per epoch to use photos, by the start of their names: {"train/": 4}.
        workers: Decoding threads; 0: one per core.
    """

    size: int = 224
    cache: Literal["device", "host", "none"] = "device"
    repeat: dict[str, int] = field(default_factory=dict)
    workers: int = 0


@dataclass(frozen=True)
class Student:
    """The network to train.

    Attributes:
        backbone: resnet18 … resnet152, efficientnet-lite0 … -lite2, vgg16, alexnet.
        attention: Layers with second-order attention, such as "45".
        start: A network whose backbone is copied, as `solar.load` takes it; default: random.
        whitening: Of the pooled vector: "none"; "pca" of the training photos at the end; "places",
            which then also whitens differences within landmarks (`solar.nn.within_whitening`); or
            "teacher", the layer trained to imitate the teacher's embedding, so that embeddings
            of the two can be compared.
        dim: Length of an embedding with "pca" or "places"; default: the backbone's channels.
        power: Strength of "pca", from 0 (none) to 1 (`solar.nn.pca_whitening`).
        size: Default longest side of photos to describe.
        scales: Default scales of photos to describe.
        p: The exponent of GeM, which is constant.
    """

    backbone: str = "resnet18"
    attention: str = ""
    start: str | None = None
    whitening: Literal["none", "pca", "places", "teacher"] = "none"
    dim: int | None = None
    power: float = 1.0
    size: int = 1024
    scales: tuple[float, ...] = SCALES
    p: float = 3.0

    def __post_init__(self) -> None:
        if self.dim is not None and self.whitening not in ("pca", "places"):
            raise SolarError("student.dim is for student.whitening pca and places only.")
        check_range("student.power", self.power, 0, 1)
        check_range("student.size", self.size, 32)
        check_range("student.scales", min(self.scales, default=0), 0.01)


@dataclass(frozen=True)
class Landmarks:
    """Labelled photos, for `loss.alike`.

    Attributes:
        photos: Number of them in every step, in addition to the batch, by the start of their names:
            {"train/": 96, "seq/": 32}. The folder in a name is the landmark.
        each: Photos of one landmark in a step, or fewer if it has fewer.
    """

    photos: dict[str, int] = field(default_factory=dict)
    each: int = 8

    def __post_init__(self) -> None:
        if min(self.each, *self.photos.values(), 2) < 2:
            raise SolarError("landmarks.photos and landmarks.each must be 2 or more.")


@dataclass(frozen=True)
class DistillLoss:
    """Weights of the losses.

    Attributes:
        places: Cosine distance to the teacher's map, at every location.
        pooled: Cosine distance to the teacher's embedding.
        relation: Kullback-Leibler divergence of the softmaxes over similarities within the batch.
        alike: Contrast of two views of each photo, and of photos of one landmark, with all others
            in the batch (`solar.losses.info_nce`), after a projection of its own.
        second_order: The paper's second-order similarity loss on the same embeddings; negatives
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
        """Views of each photo in a step."""
        return 2 if self.alike or self.second_order else 1


@dataclass(frozen=True)
class Tuning:
    """Fine-tuning of the first teacher on the student's photos and landmarks.

    Attributes:
        steps: 0 leaves the teacher unchanged.
        lr: Highest rate of AdamW.
        keep: Weight of the cosine distance to the original maps, which prevents forgetting.
    """

    steps: int = 0
    lr: float = 1.5e-4
    keep: float = 1.0

    def __post_init__(self) -> None:
        check_range("tune.steps", self.steps, 0)
        if self.lr <= 0:
            raise SolarError(f"tune.lr must be above 0, not {self.lr:g}.")


@dataclass(frozen=True, kw_only=True)
class DistillRecipe(Recipe):
    """Settings for distillation.

    Biases and norms have no weight decay; a batch counts photos without those of `landmarks`.

    Attributes:
        teacher: As `distill.teacher.load_teacher` takes it. Of several, the map of the first and
            the concatenated embeddings of all are imitated.
        shares: Of the teachers in similarities of the concatenated embeddings; default: equal.
        whiten_teacher: Strength, from 0 (none) to 1, of a whitening by 20,000 photos of the first
            teacher and of those without a whitening of their own (`Teacher.whiten`).
        tune: Fine-tuning of the first teacher before distillation.
        augment: Changes of photos, the same for teacher and student.
        sizes: Sides of the squares, one drawn per step.
        warmup_projections: First steps, in which only projections learn: for a pretrained student.
    """

    data: DistillData
    teacher: tuple[str, ...]
    shares: tuple[float, ...] = ()
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
        if self.shares and (len(self.shares) != len(self.teacher) or min(self.shares) <= 0):
            raise SolarError(
                f"shares must be {len(self.teacher)} number(s) above 0, one for each teacher."
            )
        check_range("whiten_teacher", self.whiten_teacher, 0, 1)
        if self.student.whitening == "teacher" and (self.whiten_teacher or len(self.teacher) > 1):
            raise SolarError(
                "student.whitening teacher is for one teacher, taken as it is: name one, and "
                "leave whiten_teacher at 0."
            )
        if self.student.whitening == "places" and not self.landmarks.photos:
            raise SolarError(
                "student.whitening places needs landmarks.photos, which gives the labels."
            )
        if self.tune.steps and not (self.whiten_teacher and self.landmarks.photos):
            raise SolarError("tune.steps needs whiten_teacher above 0 and landmarks.photos.")
        for name, times in self.data.repeat.items():
            check_range(f"data.repeat of {name}", times, 1)
        if self.batch < 2:
            raise SolarError("batch must be 2 or more: batch norm cannot learn from one photo.")
        check_range("sizes", min(self.sizes, default=0), 32)
        check_range("warmup_projections", self.warmup_projections, 0, self.steps - 1)

    def may_change(self) -> tuple[str, ...]:
        """The cache and the validation, too."""
        validation = (f"validation.{setting.name}" for setting in fields(PhotoValidation))
        return (*super().may_change(), "data.cache", "data.workers", *validation)


def command_recipe(
    arguments: Sequence[str], options: Mapping[str, str | Sequence[str] | None] | None = None
) -> DistillRecipe:
    """The recipe of a command line; a SolarError if it lacks photos or a teacher.

    Args:
        arguments: In any order: at most one recipe (.yaml, or a bundled one's name), photos, and
            key=value settings.
        options: Settings by dotted name, which take precedence; None: not given.
    """
    bundled = {name for name in bundled_recipes() if not Path(name).exists()}
    files = [w for w in arguments if w in bundled or w.endswith((".yaml", ".yml"))]
    if len(files) > 1:
        raise SolarError(f"Two recipes are given, {files[0]} and {files[1]}: give one.")
    rest = [word for word in arguments if word not in files]
    overrides = [word for word in rest if "=" in word and not Path(word).exists()]
    photos = [word for word in rest if word not in overrides]
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
