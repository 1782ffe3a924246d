"""Settings that every kind of training shares; a task's own recipe extends them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

import torch

from solar.errors import SolarError
from solar.training.schedule import Schedule


@dataclass(frozen=True)
class Data:
    """What to train on: photos, as the task takes them."""

    source: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.source:
            raise SolarError("data.source names no photos.")


@dataclass(frozen=True)
class Optimiser:
    """How weights move.

    Attributes:
        kind: adam (its weight decay is L2), adamw or sgd.
        lr: The largest learning rate.
        weight_decay: Of all weights, unless the task says otherwise.
        momentum: Of sgd, like `dampening` and `nesterov`.
        clip: Longest gradient.
    """

    kind: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    dampening: float = 0.0
    nesterov: bool = False
    clip: float | None = None

    def build(self, groups: list[dict[str, Any]], device: torch.device) -> torch.optim.Optimizer:
        """A torch optimiser over groups of parameters; on a GPU one kernel updates all weights."""
        common: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay}
        common["fused"] = device.type == "cuda" or None
        if self.kind == "sgd":
            sgd = {name: getattr(self, name) for name in ("momentum", "dampening", "nesterov")}
            return torch.optim.SGD(groups, **common, **sgd)
        return (torch.optim.Adam if self.kind == "adam" else torch.optim.AdamW)(groups, **common)


@dataclass(frozen=True)
class Compute:
    """How to compute; the result stays the same up to rounding.

    Attributes:
        device: cpu or cuda; found out if not given.
        precision: "auto" is bf16 on a GPU and float32 elsewhere; losses are always
            float32. "bf16" also works on CPUs that have fast bfloat16 instructions; some that
            claim to have them crash.
        compile: Let torch compile the network: a minute at the start, then faster steps.
    """

    device: Literal["cpu", "cuda"] | None = None
    precision: Literal["auto", "float32", "tf32", "bf16"] = "auto"
    compile: bool = False

    def half(self, device: torch.device) -> bool:
        """Whether a network on this device computes in bfloat16."""
        return self.precision == "bf16" or (self.precision == "auto" and device.type == "cuda")

    @contextmanager
    def computing(self, device: torch.device) -> Iterator[None]:
        """Compute in this precision inside the block; "float32" is no less than that."""
        half = self.half(device)
        backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
        before = [backend.allow_tf32 for backend in backends]
        try:
            for backend in () if half else backends:
                backend.allow_tf32 = self.precision == "tf32"
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                yield
        finally:
            for backend, allowed in zip(backends, before, strict=True):
                backend.allow_tf32 = allowed


@dataclass(frozen=True)
class Validation:
    """Chooses the best state; without a source that is the last one.

    Attributes:
        source: What to validate on.
        every: Steps from one validation to the next, of which one is at the end.
    """

    source: tuple[str, ...] = ()
    every: int = 1000


@dataclass(frozen=True)
class PhotoValidation(Validation):
    """Chooses the best state by mAP on labelled photos.

    Attributes:
        source: A folder, tar shards, a CSV; or a .json or published .pkl with a held-out part,
            which is then used.
        size: Longest side of a photo.
        scales: Scales to average.
    """

    size: int = 512
    scales: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What every training has; a task adds its data, network and loss.

    Attributes:
        batch: Examples per step, over all processes.
        steps: Of the whole run, however often it is interrupted.
        seconds: Stop with a checkpoint after so long, for a machine that is lent for minutes.
        seed: Of everything random.
        ema: Decay of a running average of the weights, which is then what is validated and saved;
            null or 0: none.
        save_every: Steps between checkpoints, beside those after a validation; 0: none.
        keep: Checkpoints to keep beside the best.
        log_every: Steps between lines of metrics, beside those of checkpoints.
    """

    task: str = ""
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: Schedule = field(default_factory=Schedule)
    validation: Validation = field(default_factory=Validation)
    compute: Compute = field(default_factory=Compute)
    batch: int = 8
    steps: int | None = None
    seconds: float | None = None
    seed: int = 0
    ema: float | None = None
    save_every: int = 0
    keep: int = 2
    log_every: int = 50

    def __post_init__(self) -> None:
        self.check_positive("batch", "steps", "keep", "log_every")
        if not 0 <= (self.ema or 0) < 1:
            raise SolarError(f"ema must be from 0 to below 1, not {self.ema:g}.")

    def check_positive(self, *names: str) -> None:
        """Make sure that settings, by their dotted names, are 1 or more, or None."""
        for name in names:
            value = attrgetter(name)(self)
            if value is not None and value < 1:
                raise SolarError(f"{name} must be 1 or more, not {value}.")

    def may_change(self) -> tuple[str, ...]:
        """Settings in which a resumed run may differ: none of them changes what comes out."""
        return ("seconds", "keep", "save_every", "log_every", "compute.device", "compute.compile")
