"""Figures of steps, read when somebody wants to know."""

from time import monotonic

import torch

from solar.training.objective import Terms


class Meter:
    """Mean figures since it was last read, without waiting for a GPU before that."""

    def __init__(self) -> None:
        self._seen: list[Terms] = []
        self._since = monotonic()
        self.speed = 0.0  # steps per second between the last two readings

    def add(self, terms: Terms) -> None:
        """Take in the figures of a step."""
        self._seen.append({name: value.detach().float() for name, value in terms.items()})

    def read(self) -> dict[str, float]:
        """Means of all figures, fetched from the device at once."""
        rows = torch.stack([torch.stack(list(one.values())) for one in self._seen])
        means = dict(zip(self._seen[0], rows.mean(0).tolist(), strict=True))
        now = monotonic()
        self.speed = len(self._seen) / max(now - self._since, 1e-9)
        self._seen, self._since = [], now
        return means
