"""Classification of places: softmax losses with a margin, and the layer that learns the classes."""

from collections.abc import Callable
from math import cos, pi, sin, sqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.errors import SolarError
from solar.losses.tuples import full_precision

_TINY = 1e-12  # under a root, whose gradient is infinite at zero


def arcface(
    cosines: Tensor,
    labels: Tensor,
    *,
    margin: float = 0.2,
    threshold: bool = True,
    eps: float = 1e-6,
) -> Tensor:
    """Add the margin to the angle between a descriptor and its class (Deng et al. 2019).

    Example:
        >>> arcface(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), margin=0.5)
        tensor([[0.8769, 0.0000]])

    Args:
        cosines: (n, classes).
        labels: (n,).
        margin: In radians.
        threshold: Leave angles unchanged that the margin would take beyond π, where the loss would
            fall again, as Token (Wu et al. 2022) does; ILIAS (Kordopatis-Zilos et al. 2025) does
            not.
        eps: Cosines this close to ±1 get no gradient, which is infinite there.
    """
    _check_margin(cosines, labels)
    cosines = cosines.clamp(-1 + eps, 1 - eps)
    own = cosines.gather(1, labels[:, None])
    angle = own.acos()
    moved = (angle + margin).cos()
    if threshold:
        moved = torch.where(angle > pi - margin, own, moved)
    return cosines.scatter(1, labels[:, None], moved)


def cosface(cosines: Tensor, labels: Tensor, *, margin: float = 0.2) -> Tensor:
    """Subtract the margin from the cosine of a descriptor and its class (Wang et al. 2018).

    Example:
        >>> cosface(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), margin=0.2)
        tensor([[0.8000, 0.0000]])
    """
    _check_margin(cosines, labels)
    own = cosines.gather(1, labels[:, None])
    return cosines.scatter(1, labels[:, None], own - margin)


def curricular(cosines: Tensor, labels: Tensor, *, t: Tensor, margin: float = 0.15) -> Tensor:
    """ArcFace in which hard classes count more as training proceeds (Huang et al. 2020).

    DOLG and DELG in PyTorch call this ArcFace. A class is hard if its cosine c exceeds that of
    the right class after the margin; c becomes c (t + c). Beyond the threshold of `arcface` the
    right class's cosine is lowered by a constant.

    Example:
        >>> curricular(torch.tensor([[0.6, 0.8]]), torch.tensor([0]), t=torch.tensor(0.5))
        tensor([[0.4737, 1.0400]])

    Args:
        cosines: (n, classes).
        labels: (n,).
        t: State of training, from `curriculum`.
        margin: In radians.
    """
    _check_margin(cosines, labels)
    cosines = cosines.clamp(-1, 1)
    own = cosines.gather(1, labels[:, None])
    sine = (1 - own.square()).clamp(min=_TINY).sqrt()
    moved = own * cos(margin) - sine * sin(margin)
    hard = cosines > moved
    far = own <= cos(pi - margin)
    moved = torch.where(far, own - margin * sin(pi - margin), moved)
    weighted = torch.where(hard, cosines * (t + cosines), cosines)
    return weighted.scatter(1, labels[:, None], moved)


@torch.no_grad()
def curriculum(cosines: Tensor, labels: Tensor, t: Tensor) -> Tensor:
    """The next `t` of `curricular`: a moving mean of right classes' cosines, from 0 on.

    Published code moves it before it is used, and in evaluation mode too.
    """
    own = cosines.clamp(-1, 1).gather(1, labels[:, None])
    return 0.01 * own.mean() + 0.99 * t


def _check_margin(cosines: Tensor, labels: Tensor) -> None:
    if cosines.ndim != 2 or labels.shape != cosines.shape[:1] or not len(labels):
        raise SolarError(
            "A margin needs cosines (n, classes) and labels (n,), but got"
            f" {tuple(cosines.shape)} and {tuple(labels.shape)}."
        )


MARGIN_LOSSES: dict[str, Callable[..., Tensor]] = {
    "arcface": arcface,
    "cosface": cosface,
    "curricular": curricular,
}
"""Margins by the names that recipes use (`loss.kind`)."""


class ClassLoss(NamedTuple):
    """Scalars.

    Attributes:
        loss: Mean cross entropy, with the margin.
        accuracy: Share of descriptors whose own class is the nearest, without the margin.
        near: Mean squared distance of descriptors to their own class.
        far: The same, to the nearest other class.
    """

    loss: Tensor
    accuracy: Tensor
    near: Tensor
    far: Tensor


class Classifier(nn.Module):
    """A learned direction per class.

    Example:
        >>> classify = Classifier(32, 10)
        >>> classify(torch.randn(4, 32), torch.tensor([0, 3, 3, 9])).loss.ndim
        0

    Args:
        dim: Length of a descriptor.
        classes: Two or more.
        kind: One of `MARGIN_LOSSES`.
        margin: Default: that of the kind.
        scale: Factor of the cosines. Default: √dim, as in Token.
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
        """Compare descriptors (n, dim) of any norm with their labels (n,).

        Updates the state of a curricular margin, in evaluation mode too.
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
        """Cosines (n, classes) with margin and scale."""
        given = {} if self.margin is None else {"margin": self.margin}
        if self.kind == "curricular":
            self.t.copy_(curriculum(cosines, labels, self.t))
            # A copy: the next batch moves the state before this one's gradients need it.
            return self.scale * curricular(cosines, labels, t=self.t.clone(), **given)
        return self.scale * MARGIN_LOSSES[self.kind](cosines, labels, **given)
