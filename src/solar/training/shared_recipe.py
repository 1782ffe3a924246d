"""Settings that all tasks share; the recipe of a task extends them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

import torch

from solar.errors import SolarError
from solar.training.recipe import check_range
from solar.training.schedule import Schedule


@dataclass(frozen=True)
class Data:
    """What to train on; the task says what a source may be."""

    source: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.source:
            raise SolarError("data.source names no photos.")


@dataclass(frozen=True)
class Optimiser:
    """The optimiser.

    Attributes:
        kind: adam (its weight decay is L2), adamw or sgd.
        lr: The largest learning rate.
        weight_decay: Of all weights, unless the task excepts some.
        momentum: For sgd, like `dampening` and `nesterov`.
        clip: Largest norm of the gradient.
    """

    kind: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    dampening: float = 0.0
    nesterov: bool = False
    clip: float | None = None

    def build(self, groups: list[dict[str, Any]], device: torch.device) -> torch.optim.Optimizer:
        """A torch optimiser over parameter groups, fused on a GPU."""
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
        device: cpu or cuda; auto-detected by default.
        precision: "auto" is bf16 on a GPU and float32 elsewhere; losses are always
            float32. "bf16" also works on CPUs with bfloat16 instructions, though some crash.
        compile: Compile the network with torch: a minute at the start, then faster steps.
    """

    device: Literal["cpu", "cuda"] | None = None
    precision: Literal["auto", "float32", "tf32", "bf16"] = "auto"
    compile: bool = False

    def half(self, device: torch.device) -> bool:
        """Whether to compute in bfloat16 on this device."""
        return self.precision == "bf16" or (self.precision == "auto" and device.type == "cuda")

    @contextmanager
    def computing(self, device: torch.device) -> Iterator[None]:
        """Compute in this precision inside the block; "float32" turns TF32 off."""
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
        every: Steps between validations; there is always one at the end.
    """

    source: tuple[str, ...] = ()
    every: int = 1000


@dataclass(frozen=True)
class PhotoValidation(Validation):
    """Chooses the best state by mAP on labelled photos.

    Attributes:
        source: A folder, tar shards, a CSV; a .json or published .pkl, of which the held-out part
            is used; or named sets such as roxford5k and rparis6k, in which the mean of their mAP
            (medium) counts.
        root: The folder of named sets, as for `solar evaluate`.
        size: Longest side of a photo.
        scales: Scales to average.
    """

    root: str | None = None
    size: int = 512
    scales: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Common settings; a task adds its data, network and loss.

    Attributes:
        batch: Examples per step, over all processes.
        steps: Of the whole run, including interrupted parts.
        seconds: Stop with a checkpoint after this time.
        seed: Of all random numbers.
        ema: Decay of a running average of the weights, which is then validated and saved; null or
            0: none.
        save_every: Steps between checkpoints, in addition to those after a validation; 0: none.
        keep: Checkpoints to keep beside the best.
        log_every: Steps between lines of metrics; every checkpoint also writes one.
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
        """Refuse settings, by their dotted names, that are below 1."""
        for name in names:
            check_range(name, attrgetter(name)(self), 1)

    def may_change(self) -> tuple[str, ...]:
        """Settings that may change when a run is resumed: none affects the result."""
        return ("seconds", "keep", "save_every", "log_every", "compute.device", "compute.compile")
