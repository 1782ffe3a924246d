"""Losses on tuples of an anchor, its positive and its negatives: triplet and contrastive."""

from collections.abc import Sequence

import torch
from torch import Tensor

from solar.errors import SolarError


def check_tuples(anchor: Tensor, positive: Tensor, negatives: Tensor) -> None:
    """A SolarError if three tensors are not q tuples of d numbers with n negatives, q, n > 0."""
    fits = (
        anchor.ndim == 2
        and anchor.shape == positive.shape
        and negatives.ndim == 3
        and (negatives.shape[0], negatives.shape[2]) == tuple(anchor.shape)
    )
    if not fits or not negatives.numel():
        raise SolarError(
            "The loss needs anchors (q, d), positives (q, d) and negatives (q, n, d), none of them"
            f" empty, but got {tuple(anchor.shape)}, {tuple(positive.shape)} and"
            f" {tuple(negatives.shape)}."
        )


def check_reduction(reduction: str, known: Sequence[str] = ("paper", "per_query")) -> None:
    """A SolarError if there is no such reduction."""
    if reduction not in known:
        raise SolarError(f"There is no reduction {reduction!r}: choose {' or '.join(known)}.")


def full_precision(x: Tensor) -> Tensor:
    """Float32 for half-precision descriptors; float32 and float64 stay as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def triplet(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor,
    *,
    margin: float = 1.25,
    reduction: str = "paper",
) -> Tensor:
    """Hinge on squared distances, one term a triplet, computed in float32 even under autocast.

    Example:
        >>> a, p, n = torch.eye(4)[:2], torch.eye(4)[:2], torch.eye(4)[None, 2:].repeat(2, 1, 1)
        >>> triplet(a, p, n, margin=2.5)
        tensor(0.5000)

    Args:
        anchor: (q, d), descriptors of the queries.
        positive: (q, d), one positive per query.
        negatives: (q, n, d); with the anchor and the positive they make n triplets.
        margin: By how much a negative's squared distance should exceed the positive's.
        reduction: `paper` divides the sum by the number of triplets (equation 3), `per_query` by
            the number of queries, as the published code does: n times as much.
    """
    check_tuples(anchor, positive, negatives)
    check_reduction(reduction)
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = (full_precision(x) for x in (anchor, positive, negatives))
        near = (a - p).square().sum(-1, keepdim=True)
        far = (a[:, None] - n).square().sum(-1)
        hinge = (near - far + margin).relu()
        return hinge.mean() if reduction == "paper" else hinge.sum() / len(hinge)


EPS = 1e-6
"""Added to every difference before its length is taken, as published."""


def contrastive(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor,
    *,
    margin: float = 0.7,
    reduction: str = "paper",
) -> Tensor:
    """Half squared distances of positives, half squared hinges on the distances of negatives.

    Example:
        >>> a, p, n = torch.eye(4)[:2], torch.eye(4)[:2], torch.eye(4)[None, :1].repeat(2, 1, 1)
        >>> contrastive(a, p, n, reduction="sum")
        tensor(0.2450)

    Args:
        anchor: (q, d), descriptors of the queries.
        positive: (q, d), one positive per query.
        negatives: (q, n, d); with the positive they make 1 + n pairs.
        margin: Negatives farther than this distance cost nothing.
        reduction: `paper` divides the sum by the number of pairs, `per_query` by the number of
            queries, `sum` not at all: as published.
    """
    check_tuples(anchor, positive, negatives)
    check_reduction(reduction, ("paper", "per_query", "sum"))
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = (full_precision(x) for x in (anchor, positive, negatives))
        near = (a - p + EPS).square().sum(-1)
        # A norm and not a square root, whose gradient is NaN at zero.
        far: Tensor = torch.linalg.vector_norm(a[:, None] - n + EPS, dim=-1)
        total = (near.sum() + (margin - far).relu().square().sum()) / 2
        pairs = near.numel() + far.numel()
        return total / {"paper": pairs, "per_query": len(near), "sum": 1}[reduction]
