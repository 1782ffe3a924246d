"""Losses on tuples of an anchor, its positive and its negatives, and the second-order loss."""

from collections.abc import Sequence

import torch
from torch import Tensor

from solar.errors import SolarError

NEGATIVES = 5
"""Negatives per photo of a batch; as many as the paper mines."""

EPS = 1e-6
"""Added to every difference before its length is taken, as published."""


def _check(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor,
    reduction: str,
    known: Sequence[str] = ("paper", "per_query"),
) -> None:
    if reduction not in known:
        raise SolarError(f"There is no reduction {reduction!r}: choose {' or '.join(known)}.")
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
    """Hinge on squared distances, one term per triplet, computed in float32 even under autocast.

    Example:
        >>> a, p, n = torch.eye(4)[:2], torch.eye(4)[:2], torch.eye(4)[None, 2:].repeat(2, 1, 1)
        >>> triplet(a, p, n, margin=2.5)
        tensor(0.5000)

    Args:
        anchor: (q, d).
        positive: (q, d).
        negatives: (q, n, d), which make n triplets per query.
        margin: By how much a negative's squared distance should exceed the positive's.
        reduction: `paper` divides the sum by the number of triplets (equation 3), `per_query` by
            the number of queries, as the published code does: n times as much.
    """
    _check(anchor, positive, negatives, reduction)
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = (full_precision(x) for x in (anchor, positive, negatives))
        near = (a - p).square().sum(-1, keepdim=True)
        far = (a[:, None] - n).square().sum(-1)
        hinge = (near - far + margin).relu()
        return hinge.mean() if reduction == "paper" else hinge.sum() / len(hinge)


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
        anchor: (q, d).
        positive: (q, d).
        negatives: (q, n, d); with the positive they make 1 + n pairs per query.
        margin: Negatives farther than this distance cost nothing.
        reduction: `paper` divides the sum by the number of pairs, `per_query` by the number of
            queries, `sum` not at all: as published.
    """
    _check(anchor, positive, negatives, reduction, ("paper", "per_query", "sum"))
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = (full_precision(x) for x in (anchor, positive, negatives))
        near = (a - p + EPS).square().sum(-1)
        # A norm and not a square root, whose gradient is NaN at zero.
        far: Tensor = torch.linalg.vector_norm(a[:, None] - n + EPS, dim=-1)
        total = (near.sum() + (margin - far).relu().square().sum()) / 2
        pairs = near.numel() + far.numel()
        return total / {"paper": pairs, "per_query": len(near), "sum": 1}[reduction]


def nearest_negatives(anchors: Tensor, rows: Tensor, kin: Tensor, count: int = NEGATIVES) -> Tensor:
    """The rows (n, d) nearest to each anchor (q, d), but those in `kin` (q, n): (q, count, d)."""
    with torch.no_grad():
        similarity = (anchors @ rows.T).masked_fill(kin, -torch.inf)
        nearest = similarity.topk(count, dim=1).indices
    return rows[nearest]


def second_order(
    anchor: Tensor, positive: Tensor, negatives: Tensor, *, reduction: str = "paper"
) -> Tensor:
    """Root of the summed squared differences of squared distances, over the whole batch.

    There is one square root for all triplets together, so the loss of a batch is not the mean of
    the losses of its parts: gather the descriptors of all ranks first
    (`solar.training.distributed.gather`).

    Example:
        >>> a, p, n = torch.eye(4)[:2], torch.eye(4)[1:3], torch.eye(4)[None, 3:].repeat(2, 1, 1)
        >>> second_order(a, p, n)
        tensor(0.)

    Args:
        anchor: (q, d).
        positive: (q, d).
        negatives: (q, n, d).
        reduction: `paper` divides the root by the number of triplets (equation 4), `per_query` by
            the number of queries, as the published code does: n times as much.
    """
    _check(anchor, positive, negatives, reduction)
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = (full_precision(x) for x in (anchor, positive, negatives))
        differences = (a[:, None] - n).square().sum(-1) - (p[:, None] - n).square().sum(-1)
        # The norm is that root, exactly, and its gradient is zero where all differences are; a
        # plain square root would make it NaN there.
        root: Tensor = torch.linalg.vector_norm(differences)
        return root / (differences.numel() if reduction == "paper" else len(differences))


def second_order_of_views(rows: Tensor, kin: Tensor) -> Tensor:
    """`second_order` of unit rows (2n, d), of which the second half are views of the first."""
    anchors, positives = rows.chunk(2)
    negatives = nearest_negatives(anchors, rows, kin[: len(anchors)])
    return second_order(anchors, positives, negatives)
