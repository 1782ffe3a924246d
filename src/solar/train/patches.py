"""Training of patch networks: SOSNet and HardNet losses on pairs from any source of patches."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from solar.datasets.photo_points import PointSettings
from solar.errors import SolarError
from solar.losses import PatchLoss, hardnet, sosnet
from solar.models import PATCH_REDUCTIONS, PatchConfig, PatchNet, save
from solar.nn.l2net import DropoutPlace
from solar.train.ema import Average
from solar.train.patch_sources import PatchSource
from solar.train.patch_views import Views
from solar.train.recipe import read_recipe
from solar.train.run import Run
from solar.train.schedule import Schedule, set_learning_rate
from solar.train.state import capture_random, restore_random, seed_everything

Precision = Literal["auto", "float32", "tf32", "bf16"]


@dataclass(frozen=True)
class Network:
    """The network: attention after these layers ("345", or "" for none), and its dropout."""

    attention: str = "345"
    dropout: float = 0.1
    dropout_place: DropoutPlace = "before"

    def __post_init__(self) -> None:
        if set(self.attention) - set("3456"):
            raise SolarError(
                f"Attention goes after some of the layers 3456, not {self.attention!r}."
            )

    def config(self) -> PatchConfig:
        """What `PatchNet` takes."""
        attention = {int(layer): PATCH_REDUCTIONS[int(layer)] for layer in self.attention}
        return PatchConfig(attention, self.dropout, self.dropout_place)


@dataclass(frozen=True)
class Loss:
    """Which loss, and its settings; `neighbours` is for SOSNet's second-order part."""

    kind: Literal["sosnet", "hardnet"] = "sosnet"
    margin: float = 1.0
    neighbours: int = 8

    def __call__(self, left: Tensor, right: Tensor) -> PatchLoss:
        """Compare the descriptors (n, 128) of the first and the second patches."""
        if self.kind == "hardnet":
            return hardnet(left, right, margin=self.margin)
        return sosnet(left, right, margin=self.margin, neighbours=self.neighbours)


@dataclass(frozen=True)
class Optimiser:
    """Adam, or stochastic gradient descent with momentum."""

    kind: Literal["adam", "sgd"] = "adam"
    rate: float = 0.01
    weight_decay: float = 0.0
    momentum: float = 0.9
    dampening: float = 0.0

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """An optimiser of all parameters of a network."""
        parameters = list(model.parameters())
        if self.kind == "adam":
            return torch.optim.Adam(
                parameters,
                self.rate,
                weight_decay=self.weight_decay,
                fused=parameters[0].is_cuda,
            )
        return torch.optim.SGD(
            parameters,
            self.rate,
            momentum=self.momentum,
            dampening=self.dampening,
            weight_decay=self.weight_decay,
        )


@dataclass(frozen=True)
class Data:
    """Where the patches come from.

    Attributes:
        kind: "photos" (cut on the fly around keypoints), "sequences" (photos with homographies),
            "phototour" or "hpatches" (cut by others).
        source: Folders, lists or tar shards of photos; the folder of the sequences; the folder of
            the PhotoTour subsets; or that of the HPatches sequences.
        subsets: Of PhotoTour, or sequences of HPatches; all there are where none is named.
        validation: PhotoTour subsets beside the trained ones (the false positive rate decides), or
            an HPatches folder or photo sequences (matching decides). None: the last state is kept.
        points: Which keypoints of photos to use.
        per_photo: Keypoints of each photo of a batch.
    """

    kind: Literal["photos", "sequences", "phototour", "hpatches"] = "photos"
    source: tuple[str, ...] = ()
    subsets: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    points: PointSettings = field(default_factory=PointSettings)
    per_photo: int = 32


@dataclass(frozen=True)
class PatchRecipe:
    """Everything that a training of a patch network depends on.

    Attributes:
        network: What is trained.
        data: On which patches.
        views: How the two patches of a pair differ (photos and sequences).
        loss: What is minimised.
        optimiser: How.
        schedule: How its rate falls.
        batch: Points a batch, two patches each.
        epochs: How long, unless `steps` says so.
        steps: How long.
        seconds: Stop after so long, whatever the steps.
        average: Decay of the running average of the weights that is kept; 0 keeps the last ones.
        seed: Of everything that is drawn.
        device: "auto" is the first CUDA device where there is one, otherwise the CPU.
        precision: "auto" is bf16 with float32 losses on CUDA, float32 elsewhere.
        log_every: Steps between lines of the metrics.
        check_every: Steps between validations and checkpoints; 0 for once an epoch.
    """

    network: Network = Network()
    data: Data = Data()
    views: Views = field(default_factory=Views)
    loss: Loss = Loss()
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = field(default_factory=lambda: Schedule(kind="cosine", final=1e-5))
    batch: int = 512
    epochs: int = 100
    steps: int | None = None
    seconds: float | None = None
    average: float = 0.0
    seed: int = 0
    device: str = "auto"
    precision: Precision = "auto"
    log_every: int = 50
    check_every: int = 0
    task: Literal["patches"] = field(default="patches")

    def __post_init__(self) -> None:
        if self.batch < 2 or min(self.log_every, self.epochs) < 1 or not 0 <= self.average < 1:
            raise SolarError(
                "A batch has at least two points, epochs and log_every are at least one, and the "
                "average's decay is below one."
            )


class Trainer:
    """One network being trained on one source, a step at a time.

    Args:
        recipe: Its loss, optimiser, schedule, precision and seed count here.
        source: Where the pairs come from; its device is that of the training.
        steps: Of the whole training, for the schedule.
        device: Where the network trains.
    """

    def __init__(
        self, recipe: PatchRecipe, source: PatchSource, *, steps: int, device: torch.device
    ) -> None:
        seed_everything(recipe.seed)
        self.recipe, self.source, self.steps, self.device = recipe, source, steps, device
        self.model = PatchNet(recipe.network.config()).to(device).train()
        if device.type == "cuda":
            for module in self.model.modules():
                if isinstance(module, nn.Conv2d):  # the layout that tensor cores read
                    weight = module.weight
                    weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        self.optimiser = recipe.optimiser.build(self.model)
        self.average = Average(self.model, recipe.average) if recipe.average else None
        self.taken = 0

    def step(self) -> PatchLoss:
        """Take a step; its loss comes back without waiting for a GPU."""
        recipe = self.recipe
        set_learning_rate(
            self.optimiser, recipe.schedule, self.taken, steps=self.steps,
            steps_per_epoch=self.source.batches,
        )  # fmt: skip
        loss = self.losses(self.source.batch(self.taken))
        self.optimiser.zero_grad(set_to_none=True)
        loss.total.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.model)
        self.taken += 1
        return PatchLoss(*(part.detach() for part in loss))

    def losses(self, pairs: Tensor) -> PatchLoss:
        """Describe pairs (2, n, 1, 32, 32) in one batch, as batch norm needs it, and compare."""
        with computing(self.recipe.precision, self.device):
            described = self.model(pairs.flatten(0, 1))
        return self.recipe.loss(*described.float().chunk(2))

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average.state_dict() if self.average is not None else None,
            "random": capture_random(),
            "taken": self.taken,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        restore_random(state["random"])
        self.taken = state["taken"]

    @contextmanager
    def finished(self) -> Iterator[PatchNet]:
        """The network as it would be saved now, for as long as the block lasts."""
        with self.average.applied(self.model) if self.average is not None else nullcontext():
            yield self.model.eval()
        self.model.train()


@contextmanager
def computing(precision: Precision, device: torch.device) -> Iterator[None]:
    """Compute convolutions and products inside the block in this precision."""
    if precision == "auto":
        precision = "bf16" if device.type == "cuda" else "float32"
    matmul, convolution = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    torch.backends.cudnn.allow_tf32 = precision != "float32"
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = matmul
        torch.backends.cudnn.allow_tf32 = convolution


Report = Callable[[int, dict[str, float]], None]
Validate = Callable[[PatchNet], dict[str, float]]


def fit(
    trainer: Trainer,
    *,
    log: Report | None = None,
    check: Callable[[Trainer], None] | None = None,
    seconds: float | None = None,
) -> None:
    """Train to the end.

    Args:
        trainer: From wherever it stands.
        log: Called with the steps taken and mean losses, every `recipe.log_every` steps.
        check: Called every `recipe.check_every` steps and at the end, to validate and to save.
        seconds: Stop after so long.

    Raises:
        SolarError: The loss is not a finite number any more. Nothing was saved since it was.
    """
    recipe, start, seen, since = trainer.recipe, time.monotonic(), time.monotonic(), 0
    sums: list[Tensor] = []
    every = recipe.check_every or trainer.source.batches
    while trainer.taken < trainer.steps:
        sums.append(torch.stack(trainer.step()))
        last = trainer.taken == trainer.steps
        stop = seconds is not None and time.monotonic() - start > seconds
        due = trainer.taken % every == 0 or last or stop
        if trainer.taken % recipe.log_every == 0 or due:
            means = dict(zip(PatchLoss._fields, torch.stack(sums).mean(0).tolist(), strict=True))
            if not isfinite(means["total"]):
                raise SolarError(
                    f"The loss stopped being a number before step {trainer.taken}: lower "
                    "optimiser.rate, and go on from the last checkpoint with --resume."
                )
            now = time.monotonic()
            means["steps_a_second"] = (trainer.taken - since if since else len(sums)) / (now - seen)
            seen, since, sums = now, trainer.taken, []
            if log is not None:
                log(trainer.taken, means)
        if due and check is not None:
            check(trainer)
            seen = time.monotonic()
        if stop:
            return


def train(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    run: str | Path,
    resume: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Train a patch network as a recipe says; `solar.train` calls this for `task: patches`.

    Returns:
        `run`, `steps`, `model` (the file to load) and the validation figures, if there are any.

    Raises:
        SolarError: The recipe or its data is wrong, or the training went wrong.
    """
    from solar.train.patch_data import open_source, open_validation
    from solar.train.patch_progress import bar

    settings = read_recipe(PatchRecipe, recipe, overrides)
    device = _device(settings.device)
    with Run.open(run, settings, resume=resume, may_change=("device", "seconds")) as opened:
        source = open_source(settings, device, cache=opened.folder / "keypoints.npz")
        validate = open_validation(settings.data)
        steps = settings.steps or settings.epochs * source.batches
        trainer = Trainer(settings, source, steps=steps, device=device)
        best = _Best(opened, validate)
        if (state := opened.latest()) is not None:
            trainer.load_state(state["trainer"])
            best.figures = state["best"]
        with bar(steps, trainer.taken, shown=progress) as moved:

            def log(step: int, values: dict[str, float]) -> None:
                rate = trainer.optimiser.param_groups[0]["lr"]
                opened.log(step, rate=rate, **values)
                moved(step, values)

            fit(trainer, log=log, check=best, seconds=settings.seconds)
        model = best.write(trainer)
    return {"run": str(run), "steps": trainer.taken, "model": str(model), **(best.figures or {})}


class _Best:
    """Validates, saves checkpoints, and remembers the figures of the best."""

    def __init__(self, run: Run, validate: Validate | None) -> None:
        self.run, self.validate = run, validate
        self.figures: dict[str, float] | None = None

    def __call__(self, trainer: Trainer) -> None:
        better = True
        if self.validate is not None:
            with trainer.finished() as model:
                figures = self.validate(model)
            self.run.log(trainer.taken, **figures)
            better = self.figures is None or figures["score"] > self.figures["score"]
            if better:
                self.figures = figures
        if better:
            with trainer.finished() as model:
                save(model, self.run.folder / "model.safetensors")
        self.run.save(trainer.taken, {"trainer": trainer.state(), "best": self.figures})

    def write(self, trainer: Trainer) -> Path:
        """The best network's file; the last one's where nothing was validated."""
        path = self.run.folder / "model.safetensors"
        if not path.exists():
            with trainer.finished() as model:
                save(model, path)
        return path


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise SolarError(f"The device {name!r} cannot be used ({error}).") from error
