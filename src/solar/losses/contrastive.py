"""The contrastive loss: positives together, negatives at least a margin away."""

import torch
from torch import Tensor

from solar.losses.tuples import check_reduction, check_tuples, full_precision

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
        positive: (q, d), one positive a query.
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
