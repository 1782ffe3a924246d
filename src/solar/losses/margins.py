"""Margins that make classification hard: the right class's cosine counts for less than it is.

Each takes the cosines (n, classes) of descriptors and classes, and labels (n,), and gives what the
softmax sees, before it is multiplied by a scale. `solar.losses.Classifier` uses them.
"""

from math import cos, pi, sin

import torch
from torch import Tensor

from solar.errors import SolarError

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
        threshold: Leave angles alone that the margin would take beyond π, where more of it would
            cost less, as Token (Wu et al. 2022) does; without it they are taken beyond, as in
            ILIAS (Kordopatis-Zilos et al. 2025).
        eps: Cosines nearer to ±1 than this get no gradient: that of an angle is infinite there.
    """
    _check(cosines, labels)
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
    _check(cosines, labels)
    own = cosines.gather(1, labels[:, None])
    return cosines.scatter(1, labels[:, None], own - margin)


def curricular(cosines: Tensor, labels: Tensor, *, t: Tensor, margin: float = 0.15) -> Tensor:
    """ArcFace in which hard classes count more the further training is (Huang et al. 2020).

    This is what DOLG and DELG in PyTorch call ArcFace. A class is hard if it is nearer than the
    right one with its margin; its cosine c becomes c (t + c). Beyond the threshold of `arcface`
    the right class's cosine is lowered by a constant.

    Example:
        >>> curricular(torch.tensor([[0.6, 0.8]]), torch.tensor([0]), t=torch.tensor(0.5))
        tensor([[0.4737, 1.0400]])

    Args:
        cosines: (n, classes).
        labels: (n,).
        t: How far training is: see `curriculum`.
        margin: In radians.
    """
    _check(cosines, labels)
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


def _check(cosines: Tensor, labels: Tensor) -> None:
    if cosines.ndim != 2 or labels.shape != cosines.shape[:1] or not len(labels):
        raise SolarError(
            "A margin needs cosines (n, classes) and labels (n,), but got"
            f" {tuple(cosines.shape)} and {tuple(labels.shape)}."
        )
