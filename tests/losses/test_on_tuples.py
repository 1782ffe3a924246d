"""What triplet, second-order and contrastive loss have in common, and each one's numbers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import relative_error
from support.unit_rows import unit_rows
from torch import Tensor

from solar.errors import SolarError
from solar.losses import TUPLE_LOSSES, contrastive, second_order

Loss = Callable[..., Tensor]
LOSSES = {**TUPLE_LOSSES, "sos": second_order}
PUBLISHED = {"triplet": "per_query", "sos": "per_query", "contrastive": "sum"}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def squared(x: Tensor, y: Tensor, eps: float = 0.0) -> float:
    return sum((float(a) - float(b) + eps) ** 2 for a, b in zip(x, y, strict=True))


def by_loops(name: str, a: Tensor, p: Tensor, n: Tensor, margin: float) -> float:
    """The sum over the batch (its root for SOS), one number at a time."""
    total = 0.0
    for i in range(len(a)):
        if name == "contrastive":
            total += squared(a[i], p[i], 1e-6) / 2
        for negative in n[i]:
            if name == "triplet":
                total += max(0.0, squared(a[i], p[i]) - squared(a[i], negative) + margin)
            elif name == "sos":
                total += (squared(a[i], negative) - squared(p[i], negative)) ** 2
            else:
                total += max(0.0, margin - math.sqrt(squared(a[i], negative, 1e-6))) ** 2 / 2
    return math.sqrt(total) if name == "sos" else total


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_are_the_published_ones(
    name: str, golden: dict[str, np.ndarray], golden_values: dict[str, Any]
) -> None:
    tuples = torch.from_numpy(golden["loss_tuples"]).requires_grad_()
    loss = LOSSES[name](tuples[:, 0], tuples[:, 1], tuples[:, 2:], reduction=PUBLISHED[name])
    loss.backward()
    assert loss.item() == pytest.approx(golden_values[f"loss_{name}_per_query"], rel=1e-5)
    assert tuples.grad is not None
    assert relative_error(tuples.grad, golden[f"loss_{name}_grad"]) < 1e-5


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=25, deadline=None)
@given(
    q=st.integers(1, 4),
    n=st.integers(1, 4),
    d=st.integers(1, 6),
    seed=st.integers(0, 1000),
    margin=st.floats(0, 3),
)
def test_any_shape_agrees_with_loops(
    name: str, q: int, n: int, d: int, seed: int, margin: float
) -> None:
    a, p, negatives = (unit_rows(seed + i, *s) for i, s in enumerate(((q, d), (q, d), (q, n, d))))
    options = {} if name == "sos" else {"margin": margin}
    total = by_loops(name, a, p, negatives, margin)
    terms = q * (n + 1 if name == "contrastive" else n)
    for reduction, count in (("paper", terms), ("per_query", q)):
        loss = LOSSES[name](a, p, negatives, reduction=reduction, **options)
        assert loss.item() == pytest.approx(total / count, rel=1e-9, abs=1e-12)


@every_loss
def test_gradient_is_that_of_the_value(loss: Loss) -> None:
    inputs = [unit_rows(i, *s).requires_grad_() for i, s in enumerate(((3, 5), (3, 5), (3, 2, 5)))]
    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize("name", ["triplet", "sos"])
def test_published_reduction_is_the_papers_times_the_negatives(name: str) -> None:
    inputs = unit_rows(0, 3, 8), unit_rows(1, 3, 8), unit_rows(2, 3, 5, 8)
    paper = LOSSES[name](*inputs)
    assert LOSSES[name](*inputs, reduction="per_query").item() == pytest.approx(5 * paper.item())


def test_one_root_over_the_whole_batch() -> None:
    a, p, n = unit_rows(0, 4, 8), unit_rows(1, 4, 8), unit_rows(2, 4, 5, 8)
    halves = [second_order(a[s], p[s], n[s], reduction="per_query") for s in ([0, 1], [2, 3])]
    whole = second_order(a, p, n, reduction="per_query").item()
    assert whole * 4 == pytest.approx(math.hypot(*(2 * half.item() for half in halves)))


def test_second_order_of_equal_pairs_is_zero_with_zero_gradient() -> None:
    a = unit_rows(0, 3, 8).requires_grad_()
    p = a.detach().clone().requires_grad_()
    loss = second_order(a, p, unit_rows(1, 3, 2, 8))
    loss.backward()
    assert loss.item() == 0
    assert a.grad is not None
    assert not a.grad.any()
    assert p.grad is not None
    assert not p.grad.any()


def test_second_order_near_zero_keeps_its_whole_gradient() -> None:
    # A term under the root would flatten the loss here.
    a = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    n = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    p = torch.tensor([[1e-9, 1.0]], dtype=torch.float64, requires_grad=True)
    second_order(a, p, n).backward()
    assert p.grad is not None
    assert p.grad[0, 0].item() == pytest.approx(2, rel=1e-6)


def test_contrastive_negative_at_distance_zero_has_a_gradient() -> None:
    a = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    contrastive(a, a.detach(), torch.full((1, 1, 3), 1e-6, dtype=torch.float64)).backward()
    assert a.grad is not None
    assert a.grad.isfinite().all()


@every_loss
def test_autocast_changes_nothing(loss: Loss) -> None:
    f32 = torch.float32
    inputs = unit_rows(0, 3, 8, dtype=f32), unit_rows(1, 3, 8, dtype=f32)
    negatives = unit_rows(2, 3, 2, 8, dtype=f32)
    with torch.autocast("cpu", torch.bfloat16):
        inside = loss(*inputs, negatives)
    assert inside.dtype == f32
    assert torch.equal(inside, loss(*inputs, negatives))


@every_loss
def test_half_precision_descriptors_are_computed_in_float32(loss: Loss) -> None:
    half = [unit_rows(i, *s).bfloat16() for i, s in enumerate(((3, 8), (3, 8), (3, 2, 8)))]
    assert torch.equal(loss(*half), loss(*(x.float() for x in half)))


@every_loss
@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 8), (3, 8), (3, 8)),
        ((3, 8), (2, 8), (3, 2, 8)),
        ((3, 8), (3, 8), (2, 2, 8)),
        ((3, 8), (3, 8), (3, 2, 7)),
        ((3, 8), (3, 8), (3, 0, 8)),
        ((0, 8), (0, 8), (0, 2, 8)),
    ],
)
def test_shapes_that_make_no_tuples_are_refused(
    loss: Loss, shapes: tuple[tuple[int, ...], ...]
) -> None:
    with pytest.raises(SolarError, match=r"anchors \(q, d\)"):
        loss(*(torch.zeros(shape) for shape in shapes))


@every_loss
def test_unknown_reduction_is_refused(loss: Loss) -> None:
    with pytest.raises(SolarError, match=r"'mean'.* paper"):
        loss(unit_rows(0, 1, 2), unit_rows(1, 1, 2), unit_rows(2, 1, 1, 2), reduction="mean")
