"""Learning rates as a pure function of the step."""

from dataclasses import dataclass
from math import cos, exp, pi
from typing import Any, Literal

from solar.errors import SolarError

Kind = Literal["exponential", "cosine", "linear", "constant"]


@dataclass(frozen=True)
class Schedule:
    """How the learning rate falls.

    Attributes:
        kind: "exponential" multiplies by exp(-decay) after every epoch, as the published code
            does; "cosine" and "linear" fall with every step to `final`; "constant" stays.
        decay: For "exponential". The paper's "decay rate 0.01" is this.
        warmup: Steps in which the rate climbs to its first value.
        final: What is left at the end, as a part of the first value ("cosine" and "linear").
    """

    kind: Kind = "exponential"
    decay: float = 0.01
    warmup: int = 0
    final: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup < 0 or not 0 <= self.final <= 1:
            raise SolarError(
                f"schedule.warmup must be 0 or more steps (not {self.warmup}), and schedule.final "
                f"between 0 and 1 (not {self.final})."
            )

    def factor(self, step: int, *, steps: int, steps_per_epoch: int = 1) -> float:
        """What the base rates are multiplied with, for the step (from 0) about to be taken.

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
        """Give every parameter group its rate of a step; a group's first rate is its `base_lr`."""
        factor = self.factor(step, steps=steps, steps_per_epoch=steps_per_epoch)
        for group in optimiser.param_groups:
            group["lr"] = group.setdefault("base_lr", group["lr"]) * factor
