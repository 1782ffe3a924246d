"""Training losses and detection of collapse."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import Parameter, signature
from itertools import islice
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from solar.errors import SolarError
from solar.losses import LISTWISE_LOSSES, MARGIN_LOSSES, TUPLE_LOSSES, second_order

T = TypeVar("T")
Terms = dict[str, Tensor]
"""Scalars of a step: `loss`, with its gradient, and other figures to log."""


@cache
def _parameters(loss: Callable[..., Any]) -> Mapping[str, Parameter]:
    return signature(loss).parameters


def call_with(loss: Callable[..., T], settings: Any, *tensors: Tensor) -> T:
    """Call a loss with those of the settings and of their `options` that it has parameters for.

    None leaves the loss's default. A SolarError if the loss has no such option.
    """
    if unknown := settings.options.keys() - _parameters(loss).keys():
        raise SolarError(f"loss.options: {settings.kind} has no setting {min(unknown)!r}.")
    known = {**vars(settings), **settings.options}
    wanted = {name: known[name] for name in _parameters(loss) if known.get(name) is not None}
    return loss(*tensors, **wanted)


def check_kind(kind: str, known: Iterable[str]) -> None:
    """Raise a SolarError if there is no loss of this name."""
    if kind not in known:
        raise SolarError(f"loss.kind must be one of {', '.join(known)}, not {kind!r}.")


@dataclass(frozen=True)
class RetrievalLoss:
    """A first-order loss and the second-order one.

    Attributes:
        kind: One of `solar.losses.TUPLE_LOSSES` or `solar.losses.LISTWISE_LOSSES`.
        margin: By default 1.25 for triplets and 0.7 for contrastive pairs.
        second_order: Weight of the second-order similarity loss, the paper's lambda.
        reduction: "paper" divides by triplets, "per_query" by queries as the published code does,
            "sum" (contrastive only) by nothing.
        options: Further settings of a loss, by the names of its parameters.
    """

    kind: str = "triplet"
    margin: float | None = None
    second_order: float = 0.0
    reduction: Literal["paper", "per_query", "sum"] = "per_query"
    options: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind in MARGIN_LOSSES:
            raise SolarError(f"loss.kind={self.kind} is a classification loss: set task=places.")
        check_kind(self.kind, {**TUPLE_LOSSES, **LISTWISE_LOSSES})
        # Try the settings now, and not after the first epoch was mined.
        objective(torch.eye(6), torch.tensor([[0, 0, 1], [1, 1, 0]]), self)

    @property
    def distance(self) -> float:
        """The margin, or its default."""
        default: float = _parameters(TUPLE_LOSSES[self.kind])["margin"].default
        return default if self.margin is None else self.margin


def objective(descriptors: Tensor, landmarks: Tensor, settings: RetrievalLoss) -> Terms:
    """The loss of descriptors (q·s, d) in q tuples of s photos: query, positive, negatives.

    Landmarks are (q, s).

    Returns:
        `loss`; its `first_order` and unweighted `second_order` part; `near` and `far`, the mean
        squared distances of queries to positives and to negatives; `spread`, the variance of the
        descriptors: 0 if all are equal, 1 if they are uniform on the sphere.
    """
    tuples = descriptors.view(*landmarks.shape, -1)
    query, positive, negatives = tuples[:, 0], tuples[:, 1], tuples[:, 2:]
    if settings.kind in TUPLE_LOSSES:
        first = call_with(TUPLE_LOSSES[settings.kind], settings, query, positive, negatives)
    else:  # a database of all positives and negatives of the batch
        relevant = landmarks[:, 0, None] == landmarks[:, 1:].flatten()
        database = tuples[:, 1:].flatten(0, 1)
        first = call_with(LISTWISE_LOSSES[settings.kind], settings, query, database, relevant)
    how = "per_query" if settings.reduction == "per_query" else "paper"
    second = second_order(query, positive, negatives, reduction=how)
    total = first + settings.second_order * second if settings.second_order else first
    with torch.no_grad():
        return {
            "loss": total,
            "first_order": first,
            "second_order": second,
            "near": (query - positive).square().sum(-1).mean(),
            "far": (query[:, None] - negatives).square().sum(-1).mean(),
            "spread": 1 - descriptors.float().mean(0).square().sum(),
        }


class CollapseMonitor:
    """Detects that descriptors collapse, or that the triplet loss stays at its margin.

    Hard negatives favour collapse: if all descriptors are equal, every triplet costs exactly the
    margin, which is less than a hard triplet costs. `stop` asks to end such a run; means are over
    `window` steps; `advice` ends the message.
    """

    def __init__(
        self,
        settings: RetrievalLoss | None = None,
        *,
        stop: bool = False,
        window: int = 20,
        advice: str = "Lower optimiser.lr, or mine with mining.style=semi-hard.",
    ) -> None:
        self.stop, self.window, self.advice = stop, window, advice
        self.margin = settings.distance if settings and settings.kind == "triplet" else None
        self.spreads: deque[float] = deque(maxlen=window)
        self.gaps: deque[float] = deque(maxlen=window)
        self.start: float | None = None

    def look(self, numbers: dict[str, float]) -> str | None:
        """Add the figures of a step; returns a message if something is wrong."""
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
        if spread < max(0.02, 0.2 * self.start) and after <= 1.1 * before:
            return (
                f"Embeddings have collapsed: their variance is {spread:.4f}, down from "
                f"{self.start:.4f} at the start. {self.advice}"
            )
        if self.margin is not None and max(self.gaps) < 0.02 * self.margin:
            return (
                f"The loss has stayed at its margin of {self.margin:g} for {self.window} steps: "
                "positives and negatives are equally far. Mine with mining.style=semi-hard, or "
                "change optimiser.lr."
            )
        return None

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint."""
        return {"spreads": list(self.spreads), "gaps": list(self.gaps), "start": self.start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.spreads = deque(state["spreads"], maxlen=self.window)
        self.gaps = deque(state["gaps"], maxlen=self.window)
        self.start = state["start"]
