"""Losses of local descriptors: every other pair of the batch is a negative.

Their small distances come from products of unit vectors, which need all digits of float32: leave
`torch.set_float32_matmul_precision` at `highest` while training with them. (Convolutions have a
setting of their own.)
"""

from typing import NamedTuple

import torch
from torch import Tensor

from solar.errors import SolarError
from solar.losses.tuples import full_precision

TOO_NEAR = 0.008
"""Patches nearer than this show the same point under two labels, so they are no negatives."""


class PatchLoss(NamedTuple):
    """A loss and its parts, all of shape ().

    Attributes:
        total: `first` + `second`, to be minimised.
        first: Hinge of positives against hardest negatives.
        second: Second-order similarity; zero for a loss without it.
        positive_distance: Mean distance of the pairs, without gradient.
        negative_distance: Mean distance of their hardest negatives, without gradient.
    """

    total: Tensor
    first: Tensor
    second: Tensor
    positive_distance: Tensor
    negative_distance: Tensor


def sosnet(left: Tensor, right: Tensor, *, margin: float = 1.0, neighbours: int = 8) -> PatchLoss:
    """Summed squared hinge on the hardest negative in four ways, plus second-order similarity.

    The hardest negative of a pair is the patch of another pair that is nearest to either of its
    two patches. The second-order part compares distances among left patches with those among right
    ones, between pairs of which one is among the `neighbours` nearest of the other, from either
    patch and on either side. Both parts are sums over the n pairs, as published.

    Example:
        >>> left, right = torch.eye(128)[:64], torch.eye(128)[:64]
        >>> round(sosnet(left, right).second.item(), 3)  # the guard in the root, 64 times
        0.064

    Args:
        left: (n, d), unit descriptors of the first patches, all of different points.
        right: (n, d), unit descriptors of the second patches, row by row of the same points.
        margin: By how much the hardest negative should be farther than the positive.
        neighbours: Of each patch, in the second-order similarity.
    """
    _check(left, right)
    if neighbours < 1:
        raise SolarError(f"The SOSNet loss needs at least one neighbour, not {neighbours}.")
    n = len(left)
    with torch.autocast(left.device.type, enabled=False):
        both = full_precision(torch.cat((left, right)))
        # (side, pair, side, pair): all four matrices of distances from one product.
        distance = ((2 - 2 * both @ both.T).abs() + 1e-6).sqrt().view(2, n, 2, n)
        same = torch.eye(n, dtype=torch.bool, device=both.device)[:, None]
        seen = distance.detach()
        apart = 2.0 * (same | (seen <= TOO_NEAR))
        positive = distance[0, :, 1].diagonal()
        negative = (distance + apart).transpose(0, 1).reshape(n, -1).min(1).values
        first = (margin + positive - negative).relu().square().sum()
        linked = _neighbourhood(seen + apart, min(neighbours, n - 1))
        change = (distance[0, :, 0] - distance[1, :, 1]).square() * linked
        second = (change.sum(1) + 1e-6).sqrt().sum()
    return _result(first, second, positive, negative)


def hardnet(left: Tensor, right: Tensor, *, margin: float = 1.0) -> PatchLoss:
    """Mean hinge on the hardest negative among the other side's patches, seen from both sides.

    Example:
        >>> left, right = torch.eye(128)[:64], torch.eye(128)[:64]
        >>> hardnet(left, right).total
        tensor(0.)

    Arguments are those of `sosnet`; rows need not be of unit length.
    """
    _check(left, right)
    with torch.autocast(left.device.type, enabled=False):
        a, p = full_precision(left), full_precision(right)
        squared = a.square().sum(1)[:, None] + p.square().sum(1) - 2 * a @ p.T
        # Rounding may leave a little less than nothing.
        distance = (squared.clamp(min=0) + 1e-6).sqrt() + 1e-8
        same = torch.eye(len(a), dtype=torch.bool, device=a.device)
        apart = distance + 10.0 * (same | (distance.detach() < TOO_NEAR))
        positive = distance.diagonal()
        negative = torch.minimum(apart.min(1).values, apart.min(0).values)
        first = (margin + positive - negative).relu().mean()
    return _result(first, torch.zeros_like(first), positive, negative)


def _neighbourhood(distance: Tensor, k: int) -> Tensor:
    """Mask (n, n): one pair is among the k nearest of the other on any (side, pair, side, pair)."""
    n = distance.shape[1]
    nearest = distance.transpose(0, 1).topk(k, largest=False).indices.view(n, -1)
    linked = torch.zeros(n, n, dtype=torch.bool, device=distance.device)
    linked.scatter_(1, nearest, True)
    return (linked | linked.T).fill_diagonal_(False)


def _result(first: Tensor, second: Tensor, positive: Tensor, negative: Tensor) -> PatchLoss:
    means = positive.detach().mean(), negative.detach().mean()
    return PatchLoss(first + second, first, second, *means)


def _check(left: Tensor, right: Tensor) -> None:
    if left.ndim != 2 or left.shape != right.shape or len(left) < 2:
        raise SolarError(
            "The loss needs descriptors (n, d) of at least two left and right patches, but got"
            f" {tuple(left.shape)} and {tuple(right.shape)}."
        )
