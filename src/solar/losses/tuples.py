"""What the losses on tuples share: an anchor, its positive and its negatives."""

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
