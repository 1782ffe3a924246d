import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.unit_rows import unit_rows
from torch import Tensor

from solar.errors import SolarError
from solar.losses import PatchLoss, hardnet, sosnet

Loss = Callable[..., PatchLoss]
every_loss = pytest.mark.parametrize("loss", [sosnet, hardnet])


def pairs(seed: int, n: int, d: int = 6, noise: float = 0.6) -> tuple[Tensor, Tensor]:
    left = unit_rows(seed, n, d)
    return left, torch.nn.functional.normalize(left + noise * unit_rows(seed + 1, n, d), dim=1)


def dot(x: Tensor, y: Tensor) -> float:
    return sum(float(a) * float(b) for a, b in zip(x, y, strict=True))


def nearest(row: dict[int, float], k: int) -> set[int]:
    return set(sorted(row, key=lambda j: row[j] + 2 * (row[j] <= 0.008))[:k])


def sosnet_by_loops(left: Tensor, right: Tensor, margin: float, k: int) -> tuple[float, float]:
    def distance(x: Tensor, y: Tensor) -> float:
        return math.sqrt(abs(2 - 2 * dot(x, y)) + 1e-6)

    n = len(left)
    # Rows of the four matrices without their diagonal: left-left, left-right, and back.
    views = [
        [{j: distance(x[i], y[j]) for j in range(n) if j != i} for i in range(n)]
        for x in (left, right)
        for y in (left, right)
    ]
    first = second = 0.0
    linked = [set[int]().union(*(nearest(view[i], k) for view in views)) for i in range(n)]
    for i in range(n):
        hardest = min(d + 2 * (d <= 0.008) for view in views for d in view[i].values())
        first += max(0.0, margin + distance(left[i], right[i]) - hardest) ** 2
        others = [j for j in range(n) if j in linked[i] or i in linked[j]]
        total = sum((views[0][i][j] - views[3][i][j]) ** 2 for j in others)
        second += math.sqrt(total + 1e-6)
    return first, second


def hardnet_by_loops(left: Tensor, right: Tensor, margin: float) -> float:
    def distance(x: Tensor, y: Tensor) -> float:
        return math.sqrt(dot(x, x) + dot(y, y) - 2 * dot(x, y) + 1e-6) + 1e-8

    n, total = len(left), 0.0
    for i in range(n):
        seen = [distance(left[i], right[j]) for j in range(n) if j != i]
        seen += [distance(left[j], right[i]) for j in range(n) if j != i]
        hardest = min(d + 10 * (d < 0.008) for d in seen)
        total += max(0.0, margin + distance(left[i], right[i]) - hardest)
    return total / n


def test_sosnet_is_the_published_one(
    golden: dict[str, np.ndarray], golden_values: dict[str, Any]
) -> None:
    left, right = (torch.from_numpy(golden[f"patch_{side}"]) for side in ("left", "right"))
    loss = sosnet(left, right)
    ours = [loss.total.item(), loss.positive_distance.item(), loss.negative_distance.item()]
    assert ours == pytest.approx(golden_values["patch_loss_sosnet"], rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(2, 12), k=st.integers(1, 14), seed=st.integers(0, 999), margin=st.floats(0, 2))
def test_sosnet_agrees_with_loops(n: int, k: int, seed: int, margin: float) -> None:
    left, right = pairs(seed, n)
    loss = sosnet(left, right, margin=margin, neighbours=k)
    first, second = sosnet_by_loops(left, right, margin, k)
    assert loss.first.item() == pytest.approx(first, rel=1e-9, abs=1e-12)
    assert loss.second.item() == pytest.approx(second, rel=1e-9)
    assert loss.total.item() == pytest.approx(first + second, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(2, 12), seed=st.integers(0, 999), margin=st.floats(0, 2))
def test_hardnet_agrees_with_loops(n: int, seed: int, margin: float) -> None:
    left, right = pairs(seed, n)
    loss = hardnet(left, right, margin=margin)
    assert loss.total.item() == pytest.approx(hardnet_by_loops(left, right, margin), rel=1e-9)
    assert loss.second.item() == 0


def test_point_under_two_names_is_no_negative() -> None:
    left, right = pairs(0, 8)
    left[1], right[1] = left[0], right[0]
    first, second = sosnet_by_loops(left, right, 1.0, 3)
    loss = sosnet(left, right, neighbours=3)
    assert loss.first.item() == pytest.approx(first)
    assert loss.second.item() == pytest.approx(second)
    # Pairs 0 and 1 agree with each other exactly; only that must not be held against them.
    right[:2] = left[:2]
    assert hardnet(left, right).total.item() == pytest.approx(hardnet_by_loops(left, right, 1.0))
    assert sosnet(left, right).negative_distance > 0.1


@every_loss
def test_gradient_is_that_of_the_value(loss: Loss) -> None:
    left, right = pairs(3, 7)
    inputs = left.requires_grad_(), right.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: loss(a, b).total, inputs)


@every_loss
def test_equal_descriptors_have_finite_gradients(loss: Loss) -> None:
    left = unit_rows(0, 1, 8, dtype=torch.float32).repeat(5, 1).requires_grad_()
    right = left.detach().clone().requires_grad_()
    loss(left, right).total.backward()
    for side in (left, right):
        assert side.grad is not None
        assert side.grad.isfinite().all()


@every_loss
def test_distances_carry_no_gradient(loss: Loss) -> None:
    left, right = pairs(0, 4)
    result = loss(left.requires_grad_(), right)
    assert result.total.requires_grad
    assert not result.positive_distance.requires_grad
    assert not result.negative_distance.requires_grad


@every_loss
def test_autocast_changes_nothing(loss: Loss) -> None:
    left, right = (side.float() for side in pairs(0, 16))
    with torch.autocast("cpu", torch.bfloat16):
        inside = loss(left, right)
    assert torch.equal(inside.total, loss(left, right).total)


@every_loss
@pytest.mark.parametrize("shapes", [((4, 8), (3, 8)), ((4,), (4,)), ((1, 8), (1, 8))])
def test_shapes_that_make_no_pairs_are_refused(
    loss: Loss, shapes: tuple[tuple[int, ...], ...]
) -> None:
    with pytest.raises(SolarError, match="left and right"):
        loss(*(torch.zeros(shape) for shape in shapes))


def test_no_neighbours_are_refused() -> None:
    with pytest.raises(SolarError, match=r"neighbour.* 0"):
        sosnet(*pairs(0, 4), neighbours=0)
