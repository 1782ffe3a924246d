"""The second-order similarity loss: an anchor and its positive see every negative equally far."""

import torch
from torch import Tensor

from solar.losses.tuples import check_reduction, check_tuples, full_precision

NEGATIVES = 5
"""How many negatives of a batch a photo has; as many as the paper mines."""


def nearest_negatives(anchors: Tensor, rows: Tensor, kin: Tensor, count: int = NEGATIVES) -> Tensor:
    """Of the rows (n, d) of a batch, those nearest to each anchor (q, d) that are not its kin.

    `kin` (q, n) tells what shows the same. Gives (q, count, d).
    """
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
    (`solar.training.distributed.gather`). Computed in float32 even under autocast.

    Example:
        >>> a, p, n = torch.eye(4)[:2], torch.eye(4)[1:3], torch.eye(4)[None, 3:].repeat(2, 1, 1)
        >>> second_order(a, p, n)
        tensor(0.)

    Args:
        anchor: (q, d), descriptors of the queries.
        positive: (q, d), one positive per query.
        negatives: (q, n, d), n per query.
        reduction: `paper` divides the root by the number of triplets (equation 4), `per_query` by
            the number of queries, as the published code does: n times as much.
    """
    check_tuples(anchor, positive, negatives)
    check_reduction(reduction)
    with torch.autocast(anchor.device.type, enabled=False):
        a, p, n = (full_precision(x) for x in (anchor, positive, negatives))
        differences = (a[:, None] - n).square().sum(-1) - (p[:, None] - n).square().sum(-1)
        # The norm is that root, exactly, and its gradient is zero where all differences are; a
        # plain square root would make it NaN there.
        root: Tensor = torch.linalg.vector_norm(differences)
        return root / (differences.numel() if reduction == "paper" else len(differences))
