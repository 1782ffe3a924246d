"""The first-order loss: a positive must be nearer than every negative by a margin."""

import torch
from torch import Tensor

from solar.losses.tuples import check_reduction, check_tuples, full_precision


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
        positive: (q, d), one positive a query.
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
