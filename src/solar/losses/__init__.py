"""The paper's losses and those it is compared with: tensors in, a scalar out.

All compute in float32 even under autocast. Tensors whose shapes do not fit and unknown reductions
raise a SolarError.
"""

from collections.abc import Callable

from torch import Tensor

from solar.losses.average_precision import average_precision as average_precision
from solar.losses.classifier import MARGIN_LOSSES as MARGIN_LOSSES
from solar.losses.classifier import Classifier as Classifier
from solar.losses.classifier import ClassLoss as ClassLoss
from solar.losses.classifier import arcface as arcface
from solar.losses.classifier import cosface as cosface
from solar.losses.classifier import curricular as curricular
from solar.losses.info_nce import info_nce as info_nce
from solar.losses.patch import PatchLoss as PatchLoss
from solar.losses.patch import hardnet as hardnet
from solar.losses.patch import sosnet as sosnet
from solar.losses.tuples import NEGATIVES as NEGATIVES
from solar.losses.tuples import contrastive as contrastive
from solar.losses.tuples import nearest_negatives as nearest_negatives
from solar.losses.tuples import second_order as second_order
from solar.losses.tuples import second_order_of_views as second_order_of_views
from solar.losses.tuples import triplet as triplet

# Losses by the names that recipes use (`loss.kind`). On tuples: anchor and positive (q, d),
# negatives (q, n, d), `margin` and `reduction`.
TUPLE_LOSSES: dict[str, Callable[..., Tensor]] = {"triplet": triplet, "contrastive": contrastive}
# On whole rankings: queries (q, d), database (m, d), relevant (q, m).
LISTWISE_LOSSES: dict[str, Callable[..., Tensor]] = {"average_precision": average_precision}
# On pairs of patches: left and right (n, d).
PATCH_LOSSES: dict[str, Callable[..., PatchLoss]] = {"sosnet": sosnet, "hardnet": hardnet}
