"""Softmax contrast of positives with all negatives of the batch."""

import torch
from torch import Tensor

from solar.errors import SolarError
from solar.losses.tuples import full_precision


def info_nce(descriptors: Tensor, positive: Tensor, *, temperature: float = 0.07) -> Tensor:
    """Mean −log probability of a positive in a softmax over it and all negatives.

    With two views of every photo as the only positives this is InfoNCE (van den Oord et al. 2018)
    as NT-Xent (Chen et al. 2020); with labels it is NT-Xent with several positives, averaged per
    row. In the supervised contrastive loss (Khosla et al. 2020) a positive also competes with the
    other positives; here it does not, so that photos of one landmark need not all look alike.

    Example:
        >>> kin = torch.tensor([[0, 1], [1, 0]]).bool()
        >>> info_nce(torch.eye(2), kin)  # without a negative there is nothing to lose
        tensor(0.)

    Args:
        descriptors: (n, d), unit rows.
        positive: (n, n) bool; the diagonal is ignored. Rows without a positive only serve as
            negatives of others.
        temperature: Divides the similarities; the lower, the more the hardest negatives count.
    """
    count = len(descriptors)
    if positive.shape != (count, count) or positive.dtype != torch.bool:
        raise SolarError(
            f"The contrast of {count} descriptors needs a {count} × {count} boolean mask, but got"
            f" {positive.dtype} of shape {tuple(positive.shape)}."
        )
    if not temperature > 0:
        raise SolarError(f"The temperature must be above 0, not {temperature:g}.")
    with torch.autocast(descriptors.device.type, enabled=False):
        rows = full_precision(descriptors)
        similarity = rows @ rows.T / temperature
        itself = torch.eye(count, dtype=torch.bool, device=rows.device)
        kin = positive & ~itself
        others = similarity.masked_fill(kin | itself, -torch.inf).logsumexp(1, keepdim=True)
        each = torch.nn.functional.softplus(others - similarity)
        known = kin.sum(1)
        found = each.masked_fill(~kin, 0).sum(1) / known.clamp(min=1)
        return found.sum() / (known > 0).sum().clamp(min=1)
