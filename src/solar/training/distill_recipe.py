"""Settings for teaching a network what another one sees."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from solar.errors import SolarError
from solar.training.augment import Augmentation
from solar.training.recipe import build, read_settings
from solar.training.schedule import Kind, Schedule


@dataclass(frozen=True)
class Data:
    """Photos without labels.

    Attributes:
        source: Folders, .txt lists, .tar shards or photos.
        size: Largest side at which photos are kept in memory (see `solar.datasets.image_cache`).
        cache: Where: "device", "host", or "none" to decode them again each time.
        repeat: Photos whose name starts so are seen this many times an epoch: {"train/": 4}.
        workers: Processes that decode; 0: one a core.
    """

    source: tuple[str, ...]
    size: int = 224
    cache: Literal["device", "host", "none"] = "device"
    repeat: dict[str, int] = field(default_factory=dict)
    workers: int = 0

    def __post_init__(self) -> None:
        if not self.source:
            raise SolarError("data.source names no photos.")


@dataclass(frozen=True)
class Student:
    """What learns.

    Attributes:
        backbone: resnet18 … resnet152, vgg16, alexnet.
        attention: Layers with second-order attention, such as "45".
        start: A network whose trunk it starts from, as `solar.load` takes it; default: chance.
        whitening: "none" leaves the pooled vector as it is; "pca" whitens it by what the training
            photos look like at the end; "teacher" keeps the layer that was trained to give the
            teacher's descriptor, so that the two can be compared.
        dim: Length of a descriptor after "pca"; default: the trunk's channels.
        power: How far "pca" whitens, from 0 (not at all) to 1 (`solar.nn.pca_whitening`).
        size: Longest side of the photos it will describe, unless its user says otherwise.
        p: The exponent of GeM, which stays.
    """

    backbone: str = "resnet18"
    attention: str = ""
    start: str | None = None
    whitening: Literal["none", "pca", "teacher"] = "none"
    dim: int | None = None
    power: float = 1.0
    size: int = 1024
    p: float = 3.0

    def __post_init__(self) -> None:
        if self.dim is not None and self.whitening != "pca":
            raise SolarError("student.dim is for student.whitening pca only.")
        if not 0 <= self.power <= 1:
            raise SolarError(f"student.power must be from 0 to 1, not {self.power:g}.")
        if self.size < 32:
            raise SolarError(f"student.size must be 32 or more, not {self.size}.")


@dataclass(frozen=True)
class Landmarks:
    """Photos of which it is known what they show, for `loss.alike`.

    Attributes:
        start: Those whose names start so; the folder in a name is the landmark.
        photos: Of them in every step, beside those whose turn it is.
        each: Of one landmark in a step.
    """

    start: str = ""
    photos: int = 0
    each: int = 8

    def __post_init__(self) -> None:
        if self.photos < 0 or self.each < 2 or self.photos % self.each:
            raise SolarError("landmarks.photos must be a multiple of landmarks.each, 2 or more.")


@dataclass(frozen=True)
class Changes(Augmentation):
    """How photos are changed: an `Augmentation` that is not zero unless said otherwise."""

    crop: float = 0.6
    stretch: float = 0.2
    flip: float = 0.5
    colour: float = 0.3


@dataclass(frozen=True)
class Fall(Schedule):
    """How the learning rate falls: a `Schedule` that is a cosine unless said otherwise."""

    kind: Kind = "cosine"
    warmup: int = 200


@dataclass(frozen=True)
class Loss:
    """Weights of what is minimised.

    Attributes:
        places: Cosine distance to the teacher's map, at every location.
        pooled: Cosine distance to the teacher's descriptor.
        relation: Squared difference between the student's and the teacher's own similarities of
            all pairs in a batch: second order, and without a projection in between.
        alike: Contrast of two views of each photo, and of photos of one landmark, with all others
            in the batch (`solar.losses.info_nce`), behind a projection of its own.
        second_order: The paper's second-order similarity loss on the same descriptors; negatives
            are the nearest in the batch.
        temperature: Of the contrast.
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
class Optimiser:
    """How weights move.

    Attributes:
        kind: adamw, or sgd with momentum 0.9.
        rate: The largest learning rate.
        decay: Weight decay, not of biases and norms.
        clip: Longest gradient.
    """

    kind: Literal["adamw", "sgd"] = "adamw"
    rate: float = 2e-3
    decay: float = 0.02
    clip: float | None = 5.0


@dataclass(frozen=True)
class Compute:
    """How to compute.

    Attributes:
        device: cpu or cuda; found out if not given.
        precision: "auto" is bf16 on a GPU and float32 elsewhere.
        compile: Let torch.compile translate the student: pays for long runs only.
        max_seconds: Stop with a checkpoint after so long, for a GPU that is lent for minutes.
    """

    device: Literal["cpu", "cuda"] | None = None
    precision: Literal["auto", "float32", "bf16"] = "auto"
    compile: bool = False
    max_seconds: float | None = None


@dataclass(frozen=True)
class Validation:
    """Measures mAP on labelled photos, if there are some, and lets it choose the best state.

    Attributes:
        source: A folder, tar shards or a CSV.
        every: Steps from one validation to the next; there is one at the end, too.
        size: Longest side of a photo.
        scales: Scales to average.
    """

    source: tuple[str, ...] = ()
    every: int = 1000
    size: int = 224
    scales: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class DistillRecipe:
    """Everything that decides what a distillation gives.

    Attributes:
        data: Photos.
        teacher: As `solar.training.teacher.load_teacher` takes it.
        student: What learns.
        augment: How photos are changed; teacher and student see the same.
        loss: What is minimised.
        landmarks: What is known of the photos, if anything.
        optimiser: How weights move.
        schedule: How the learning rate falls.
        validation: How it is judged.
        compute: How to compute.
        task: Always "distill".
        sizes: Sides of the squares shown, one drawn for each step.
        batch: Photos a step, without those of `landmarks`.
        settle: Steps at the beginning in which nothing but projections learns: for a student that
            starts from another.
        steps: Of the whole run, however often it is interrupted.
        ema: Decay of the running average of the weights that is validated and saved; 0: none.
        seed: Of everything random.
        save_every: Steps between checkpoints.
        log_every: Steps between lines of metrics.
        keep: Checkpoints to keep beside the best.
    """

    data: Data
    teacher: str
    student: Student = field(default_factory=Student)
    augment: Changes = field(default_factory=Changes)
    loss: Loss = field(default_factory=Loss)
    landmarks: Landmarks = field(default_factory=Landmarks)
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: Fall = field(default_factory=Fall)
    validation: Validation = field(default_factory=Validation)
    compute: Compute = field(default_factory=Compute)
    task: Literal["distill"] = "distill"
    sizes: tuple[int, ...] = (128, 160, 192, 224)
    batch: int = 256
    steps: int = 5000
    settle: int = 0
    ema: float = 0.999
    seed: int = 0
    save_every: int = 1000
    log_every: int = 50
    keep: int = 2

    def __post_init__(self) -> None:
        positive = {
            "batch": self.batch,
            "steps": self.steps,
            "save_every": self.save_every,
            "log_every": self.log_every,
            "keep": self.keep,
            "data.size": self.data.size,
            "validation.every": self.validation.every,
            **{f"data.repeat of {name}": times for name, times in self.data.repeat.items()},
        }
        for name, value in positive.items():
            if value < 1:
                raise SolarError(f"{name} must be 1 or more, not {value}.")
        if self.batch < 2:
            raise SolarError("batch must be 2 or more: batch norm cannot learn from one photo.")
        if not self.sizes or min(self.sizes) < 32:
            raise SolarError(f"sizes must be 32 or more each, not {list(self.sizes)}.")
        if not 0 <= self.settle < self.steps:
            raise SolarError(f"settle must be 0 or more and below steps, not {self.settle}.")
        if not 0 <= self.ema < 1:
            raise SolarError(f"ema must be from 0 to below 1, not {self.ema}.")

    def may_change(self) -> tuple[str, ...]:
        """Settings in which a resumed run may differ: none of them changes what comes out."""
        validation = tuple(f"validation.{name}" for name in ("source", "every", "size", "scales"))
        return (
            *("data.cache", "data.workers", "compute.device", "compute.max_seconds"),
            *("save_every", "log_every", "keep"),
            *validation,
        )


def command_recipe(
    arguments: Sequence[str], options: Mapping[str, str | None] | None = None
) -> DistillRecipe:
    """The recipe of a command line.

    Args:
        arguments: In any order: at most one recipe (.yaml), photos, and key=value settings.
        options: Settings by dotted name, on top of those; None where one is not given.

    Raises:
        SolarError: There are two recipes, no photos or no teacher, or a setting is wrong.
    """
    files = [one for one in arguments if one.endswith((".yaml", ".yml"))]
    if len(files) > 1:
        raise SolarError(f"Two recipes are given, {files[0]} and {files[1]}: give one.")
    rest = [one for one in arguments if one not in files]
    overrides = [one for one in rest if "=" in one and not Path(one).exists()]
    settings = read_settings(files[0] if files else os.devnull, overrides)
    where = files[0] if files else "The command"
    if (task := settings.get("task", "distill")) != "distill":
        raise SolarError(f"{where} is a recipe for {task}: give it to solar train.")
    photos = [one for one in rest if one not in overrides]
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for name, value in {**given, **({"data.source": photos} if photos else {})}.items():
        *sections, last = name.split(".")
        at = settings
        for section in sections:
            at = at.setdefault(section, {})
        at[last] = value
    if not settings.get("data", {}).get("source"):
        raise SolarError("No photos are given: name folders, lists or tar shards of them.")
    if "teacher" not in settings:
        raise SolarError("No teacher is given: name one with --teacher.")
    return build(DistillRecipe, settings, where)
