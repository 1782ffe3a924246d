"""What changes with the step: learning rates, and a running average of the weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import cos, exp, pi
from typing import Any, Literal

import torch
from torch import Tensor, nn

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


class EMA:
    """Exponential moving average of a network's trainable parameters and moving buffers.

    Early on the decay is smaller, (1 + n) / (10 + n) after n updates, so that the first, untrained
    state is soon forgotten; `decay` is how much of the average then stays at each update.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.values = {name: value.clone() for name, value in _moving(model)}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the network's state after a step."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        moving = dict(_moving(model))
        averaged = [name for name, value in moving.items() if value.is_floating_point()]
        if averaged:  # all in one go, which on a GPU takes a kernel instead of hundreds
            own = [self.values[name] for name in averaged]
            torch._foreach_lerp_(own, [moving[name] for name in averaged], 1 - decay)
        for name in moving.keys() - set(averaged):
            self.values[name].copy_(moving[name])

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Let the network hold the average for a while."""
        kept = {name: value.clone() for name, value in _moving(model)}
        _put(model, self.values)
        try:
            yield
        finally:
            _put(model, kept)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"updates": self.updates, "values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.updates = state["updates"]
        for name, value in self.values.items():
            value.copy_(state["values"][name])


def _moving(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield name, parameter.detach()
    yield from model.named_buffers()


@torch.no_grad()
def _put(model: nn.Module, values: dict[str, Tensor]) -> None:
    for name, value in _moving(model):
        value.copy_(values[name])
