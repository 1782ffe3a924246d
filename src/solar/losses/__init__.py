"""The paper's losses and those it is compared with: tensors in, a scalar out, float32 inside."""

from solar.losses.average_precision import average_precision
from solar.losses.contrastive import contrastive
from solar.losses.info_nce import info_nce
from solar.losses.patch import PatchLoss, hardnet, sosnet
from solar.losses.sos import second_order
from solar.losses.triplet import triplet

__all__ = [
    "PatchLoss",
    "average_precision",
    "contrastive",
    "hardnet",
    "info_nce",
    "second_order",
    "sosnet",
    "triplet",
]
