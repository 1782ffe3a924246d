"""Classes as directions: how training with labels, but without pairs, tells places apart."""

from math import sqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.errors import SolarError
from solar.losses.margins import arcface, cosface, curricular, curriculum
from solar.losses.tuples import full_precision

MARGIN_LOSSES = {"arcface": arcface, "cosface": cosface, "curricular": curricular}
"""Margins by the names that recipes use (`loss.kind`)."""


class ClassLoss(NamedTuple):
    """A loss and what it saw; all of shape () but the cosines.

    Attributes:
        loss: Mean cross entropy of the classes, with their margin.
        accuracy: Share of descriptors whose own class is the nearest, without the margin.
        near: Mean squared distance of descriptors to their own class.
        far: The same, to the nearest other class.
    """

    loss: Tensor
    accuracy: Tensor
    near: Tensor
    far: Tensor


class Classifier(nn.Module):
    """A direction for each class, to be learnt together with the descriptors.

    Example:
        >>> classify = Classifier(32, 10)
        >>> classify(torch.randn(4, 32), torch.tensor([0, 3, 3, 9])).loss.ndim
        0

    Args:
        dim: Length of a descriptor.
        classes: How many; two or more.
        kind: One of `MARGIN_LOSSES`.
        margin: That of the kind, if not given.
        scale: What the cosines are multiplied with; √dim if not given, as Token does it.
    """

    t: Tensor

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        kind: str = "arcface",
        margin: float | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        if kind not in MARGIN_LOSSES:
            raise SolarError(f"There is no margin {kind!r}: choose {', '.join(MARGIN_LOSSES)}.")
        self.kind, self.margin = kind, margin
        self.scale = sqrt(dim) if scale is None else scale
        self.weight = nn.Parameter(torch.empty(classes, dim))
        nn.init.xavier_uniform_(self.weight)
        self.register_buffer("t", torch.zeros(()))  # of the curricular margin

    def forward(self, descriptors: Tensor, labels: Tensor) -> ClassLoss:
        """Descriptors (n, dim) of any length and labels (n,): float32 even under autocast.

        It moves the state of a curricular margin, in evaluation mode too.
        """
        with torch.autocast(descriptors.device.type, enabled=False):
            cosines = self.cosines(descriptors)
            loss = F.cross_entropy(self.logits(cosines, labels), labels)
            with torch.no_grad():
                own = cosines.gather(1, labels[:, None])[:, 0]
                others = cosines.scatter(1, labels[:, None], -torch.inf).amax(1)
                return ClassLoss(
                    loss,
                    (own > others).float().mean(),
                    2 - 2 * own.mean(),
                    2 - 2 * others.mean(),
                )

    def cosines(self, descriptors: Tensor) -> Tensor:
        """Cosines (n, classes) of descriptors and classes."""
        rows = F.normalize(full_precision(descriptors), dim=1)
        return rows @ F.normalize(full_precision(self.weight), dim=1).T

    def logits(self, cosines: Tensor, labels: Tensor) -> Tensor:
        """What the softmax sees of cosines (n, classes)."""
        given = {} if self.margin is None else {"margin": self.margin}
        if self.kind == "curricular":
            self.t.copy_(curriculum(cosines, labels, self.t))
            # A copy: the next batch moves the state before this one's gradients need it.
            return self.scale * curricular(cosines, labels, t=self.t.clone(), **given)
        margin_of = arcface if self.kind == "arcface" else cosface
        return self.scale * margin_of(cosines, labels, **given)
