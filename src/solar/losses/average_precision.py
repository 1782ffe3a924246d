"""The listwise loss: one minus a differentiable average precision."""

import torch
from torch import Tensor

from solar.errors import SolarError
from solar.losses.tuples import full_precision


def average_precision(
    queries: Tensor,
    database: Tensor,
    relevant: Tensor,
    *,
    bins: int = 20,
    lowest: float = -1.0,
) -> Tensor:
    """One minus the mean average precision, from histograms of the similarities.

    Each similarity, from 1 down to `lowest`, is shared between the two nearest of `bins` evenly
    spaced bins; precision and recall are those of the bins (He et al. 2018, Revaud et al. 2019).
    With many bins this tends to the average precision of the ranking. Memory is a few (q, m)
    matrices, whatever the number of bins.

    Example:
        >>> average_precision(torch.eye(3), torch.eye(3), torch.eye(3, dtype=torch.bool))
        tensor(0.)

    Args:
        queries: (q, d), unit rows.
        database: (m, d), unit rows.
        relevant: (q, m) bool. Queries without a relevant row are ignored.
        bins: At least two.
        lowest: Similarity of the last bin; what is less similar falls into it and has no gradient.
            Revaud et al. use 0, twice as fine for the same number of bins.
    """
    if relevant.shape != (len(queries), len(database)) or relevant.dtype != torch.bool:
        raise SolarError(
            f"The average-precision loss needs a boolean mask of {len(queries)} × "
            f"{len(database)} pairs, but got {relevant.dtype} of shape {tuple(relevant.shape)}."
        )
    if bins < 2:
        raise SolarError(f"The average-precision loss needs at least two bins, not {bins}.")
    if not -1 <= lowest < 1:
        raise SolarError(f"The lowest similarity must be from -1 to below 1, not {lowest:g}.")
    with torch.autocast(queries.device.type, enabled=False):
        similarity = full_precision(queries) @ full_precision(database).T
        ones = torch.ones_like(similarity)
        everything, right = (
            _histogram(similarity, weight, bins, lowest) for weight in (ones, ones * relevant)
        )
        found = right.cumsum(1)
        # Bins before the first photo hold nothing: 0 / 1 there instead of 0 / 0.
        listed = everything.cumsum(1)
        precision = found / torch.where(listed > 0, listed, 1)
        known = found[:, -1] > 0
        average = (precision * right).sum(1) / torch.where(known, found[:, -1], 1)
        return ((1 - average) * known).sum() / known.sum().clamp(min=1)


def _histogram(similarity: Tensor, weight: Tensor, bins: int, lowest: float) -> Tensor:
    """Weights (q, m) summed into bins (q, bins), the most similar first."""
    # Rounding may carry a similarity a little past 1; beyond the ends there is no gradient.
    place = ((1 - similarity) * ((bins - 1) / (1 - lowest))).clamp(0, bins - 1)
    lower = place.detach().floor().clamp(max=bins - 2)
    share = place - lower
    lower = lower.long()
    sums = weight.new_zeros(len(weight), bins).scatter_add(1, lower, weight * (1 - share))
    return sums.scatter_add(1, lower + 1, weight * share)
