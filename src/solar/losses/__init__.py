"""The paper's losses and those it is compared with: tensors in, a scalar out.

All compute in float32 even under autocast. Tensors whose shapes do not fit and unknown reductions
raise a SolarError.
"""

from collections.abc import Callable

from torch import Tensor

from solar.losses.average_precision import average_precision
from solar.losses.classifier import (
    MARGIN_LOSSES,
    Classifier,
    ClassLoss,
    arcface,
    cosface,
    curricular,
)
from solar.losses.info_nce import info_nce
from solar.losses.patch import PatchLoss, hardnet, sosnet
from solar.losses.tuples import (
    NEGATIVES,
    contrastive,
    nearest_negatives,
    second_order,
    second_order_of_views,
    triplet,
)

__all__ = [
    "LISTWISE_LOSSES",
    "MARGIN_LOSSES",
    "NEGATIVES",
    "PATCH_LOSSES",
    "TUPLE_LOSSES",
    "ClassLoss",
    "Classifier",
    "PatchLoss",
    "arcface",
    "average_precision",
    "contrastive",
    "cosface",
    "curricular",
    "hardnet",
    "info_nce",
    "nearest_negatives",
    "second_order",
    "second_order_of_views",
    "sosnet",
    "triplet",
]

# Losses by the names that recipes use (`loss.kind`). On tuples: anchor and positive (q, d),
# negatives (q, n, d), `margin` and `reduction`.
TUPLE_LOSSES: dict[str, Callable[..., Tensor]] = {"triplet": triplet, "contrastive": contrastive}
# On whole rankings: queries (q, d), database (m, d), relevant (q, m).
LISTWISE_LOSSES: dict[str, Callable[..., Tensor]] = {"average_precision": average_precision}
# On pairs of patches: left and right (n, d).
PATCH_LOSSES: dict[str, Callable[..., PatchLoss]] = {"sosnet": sosnet, "hardnet": hardnet}
