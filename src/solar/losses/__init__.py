"""The paper's losses and those it is compared with: tensors in, a scalar out.

All compute in float32 even under autocast, and answer shapes that do not fit each other, or a
reduction that there is not, with a SolarError.
"""

from collections.abc import Callable

from torch import Tensor

from solar.losses.average_precision import average_precision
from solar.losses.classifier import MARGIN_LOSSES, Classifier, ClassLoss
from solar.losses.info_nce import info_nce
from solar.losses.margins import arcface, cosface, curricular
from solar.losses.patch import PatchLoss, hardnet, sosnet
from solar.losses.sos import NEGATIVES, nearest_negatives, second_order
from solar.losses.tuples import contrastive, triplet

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
    "sosnet",
    "triplet",
]

# First-order losses on tuples by the names that recipes use (`loss.kind`): each takes anchor and
# positive (q, d), negatives (q, n, d), `margin` and `reduction`, and gives a scalar.
TUPLE_LOSSES: dict[str, Callable[..., Tensor]] = {"triplet": triplet, "contrastive": contrastive}
# Losses on whole rankings, by the same names: queries (q, d), database (m, d), relevant (q, m).
LISTWISE_LOSSES: dict[str, Callable[..., Tensor]] = {"average_precision": average_precision}
# Losses on pairs of patches: left and right (n, d).
PATCH_LOSSES: dict[str, Callable[..., PatchLoss]] = {"sosnet": sosnet, "hardnet": hardnet}
