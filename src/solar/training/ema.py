"""A running average of what is being trained, often better than its last state."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


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
