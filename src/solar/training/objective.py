"""What is minimised, and whether training is still worth going on with."""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from solar.errors import SolarError
from solar.losses import average_precision, contrastive, second_order, triplet
from solar.training.retrieval_recipe import Loss


@dataclass(frozen=True)
class Terms:
    """A batch's loss and what it is made of, all scalars.

    Attributes:
        total: With gradient.
        first: The first-order loss.
        second: The second-order loss, not yet weighted.
        near: Mean squared distance of queries and positives.
        far: Mean squared distance of queries and negatives.
        spread: Variance of the batch's descriptors: 0 if they are all alike, 1 if they point
            everywhere.
    """

    total: Tensor
    first: Tensor
    second: Tensor
    near: Tensor
    far: Tensor
    spread: Tensor

    def numbers(self) -> dict[str, float]:
        """Plain values, fetched from the device at once."""
        names = ("loss", "first_order", "second_order", "near", "far", "spread")
        values = (self.total, self.first, self.second, self.near, self.far, self.spread)
        fetched = torch.stack([value.detach().float() for value in values]).tolist()
        return dict(zip(names, fetched, strict=True))


def objective(descriptors: Tensor, landmarks: Tensor, settings: Loss) -> Terms:
    """The loss of a batch of tuples.

    Args:
        descriptors: Of every photo of every tuple, tuple by tuple.
        landmarks: What each photo shows.
        settings: Which loss.

    Shape:
        descriptors (q·s, d), landmarks (q, s), s photos a tuple: query, positive, negatives.
    """
    tuples = descriptors.view(*landmarks.shape, -1)
    query, positive, negatives = tuples[:, 0], tuples[:, 1], tuples[:, 2:]
    if settings.kind == "average_precision":
        # Every query asks all positives and negatives of the batch.
        relevant = landmarks[:, 0, None] == landmarks[:, 1:].flatten()
        database = tuples[:, 1:].flatten(0, 1)
        first = average_precision(query, database, relevant, bins=settings.bins)
    else:
        kind = triplet if settings.kind == "triplet" else contrastive
        first = kind(
            query, positive, negatives, margin=settings.distance, reduction=settings.reduction
        )
    how = "per_query" if settings.reduction == "per_query" else "paper"
    second = second_order(query, positive, negatives, reduction=how)
    total = first + settings.second_order * second if settings.second_order else first
    with torch.no_grad():
        flat = descriptors.detach().float()
        near = (query - positive).square().sum(-1).mean()
        far = (query[:, None] - negatives).square().sum(-1).mean()
        spread = 1 - flat.mean(0).square().sum()
    return Terms(total, first, second, near, far, spread)


def check_finite(numbers: dict[str, float], step: int) -> None:
    """Stop before a loss that is no number gets into the weights.

    Raises:
        SolarError: The loss is NaN or infinite.
    """
    if not isfinite(numbers["loss"]):
        raise SolarError(
            f"The loss of step {step} is {numbers['loss']}, so training has stopped; the last "
            "checkpoint is from before. Lower optimiser.rate, or set optimiser.clip=1, and go on "
            "from it with a new run (network.start)."
        )


class CollapseMonitor:
    """Notices when all descriptors become alike, or the loss no longer says anything.

    Hard negatives make it easy to collapse: if every photo has the same descriptor, every triplet
    costs exactly the margin, which is less than what a hard triplet costs.

    Args:
        settings: Of the loss.
        window: Steps that are looked at together.
    """

    def __init__(self, settings: Loss, window: int = 20) -> None:
        self.margin = settings.distance if settings.kind == "triplet" else None
        self.window = window
        self.spreads: deque[float] = deque(maxlen=window)
        self.gaps: deque[float] = deque(maxlen=window)
        self.start: float | None = None

    def look(self, numbers: dict[str, float]) -> str | None:
        """Take in a step; returns a sentence if something is wrong."""
        self.spreads.append(numbers["spread"])
        self.gaps.append(abs(numbers["far"] - numbers["near"]))
        if len(self.spreads) < self.window:
            return None
        spread = sum(self.spreads) / self.window
        if self.start is None:
            self.start = spread
        half = self.window // 2
        before = sum(islice(self.spreads, half)) / half
        after = sum(islice(self.spreads, self.window - half, None)) / half
        alike = spread < max(0.02, 0.2 * self.start) and after <= 1.1 * before
        if alike:
            return (
                f"Descriptors have collapsed: their variance is {spread:.4f}, where the run began "
                f"with {self.start:.4f}. Lower optimiser.rate, or mine with mining.style=semi-hard."
            )
        if self.margin is not None and max(self.gaps) < 0.02 * self.margin:
            return (
                f"The loss has sat at its margin of {self.margin:g} for {self.window} steps: "
                "positives and negatives are equally far. Mine with mining.style=semi-hard, or "
                "change optimiser.rate."
            )
        return None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"spreads": list(self.spreads), "gaps": list(self.gaps), "start": self.start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.spreads = deque(state["spreads"], maxlen=self.window)
        self.gaps = deque(state["gaps"], maxlen=self.window)
        self.start = state["start"]
