"""Learning-rate schedules: pure functions of the step."""

from dataclasses import dataclass
from math import cos, exp, pi
from typing import Any, Literal

from solar.training.recipe import check_range


@dataclass(frozen=True)
class Schedule:
    """How the learning rate falls.

    Attributes:
        kind: "exponential" multiplies by exp(-decay) after every epoch, as the published code
            does; "cosine" and "linear" fall with every step to `final`; "constant" stays.
        decay: For "exponential". The paper's "decay rate 0.01" is this.
        warmup: Steps in which the rate rises to its first value.
        final: Rate at the end, as a share of the first value ("cosine" and "linear").
    """

    kind: Literal["exponential", "cosine", "linear", "constant"] = "exponential"
    decay: float = 0.01
    warmup: int = 0
    final: float = 0.0

    def __post_init__(self) -> None:
        check_range("schedule.warmup", self.warmup, 0)
        check_range("schedule.final", self.final, 0, 1)

    def factor(self, step: int, *, steps: int, steps_per_epoch: int = 1) -> float:
        """Factor of the base rates for a step, counted from 0.

        Example:
            >>> round(Schedule().factor(50 * 250, steps=25000, steps_per_epoch=250), 4)
            0.6065
        """
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        if self.kind == "constant":
            return 1.0
        if self.kind == "exponential":
            return exp(-self.decay * (step // steps_per_epoch))
        done = min(1.0, (step - self.warmup) / max(1, steps - self.warmup))
        left = 1 - done if self.kind == "linear" else (1 + cos(pi * done)) / 2
        return self.final + (1 - self.final) * left

    def apply(self, optimiser: Any, step: int, *, steps: int, steps_per_epoch: int = 1) -> None:
        """Set the rate of every parameter group; a group's first rate is its `base_lr`."""
        factor = self.factor(step, steps=steps, steps_per_epoch=steps_per_epoch)
        for group in optimiser.param_groups:
            group["lr"] = group.setdefault("base_lr", group["lr"]) * factor
