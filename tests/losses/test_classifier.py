from math import acos, cos, pi, sin

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.drawn import relative_error
from support.golden2 import golden2
from torch import Tensor

from solar.errors import SolarError
from solar.losses import Classifier, arcface, cosface, curricular

GOLDEN = golden2("arc")


def classifier(**settings: object) -> Classifier:
    weight = torch.from_numpy(GOLDEN["arc_weight"])
    found = Classifier(weight.shape[1], len(weight), **settings)  # type: ignore[arg-type]
    with torch.no_grad():
        found.weight.copy_(weight)
    return found


def compare(classify: Classifier, name: str, features: str, tolerance: float) -> None:
    """A call on the golden features: logits, loss and both gradients."""
    rows = torch.from_numpy(GOLDEN[features]).requires_grad_()
    labels = torch.from_numpy(GOLDEN["arc_labels"]).long()
    before = classify.t.clone()
    logits = classify.logits(classify.cosines(rows), labels)
    classify.t.copy_(before)
    found = classify(rows, labels)
    classify.weight.grad = None
    found.loss.backward()
    ours = {
        "logits": logits,
        "loss": found.loss,
        "grad_features": rows.grad,
        "grad_weight": classify.weight.grad,
    }
    for part, value in ours.items():
        assert relative_error(value, GOLDEN[f"{name}_{part}"]) < tolerance, part


@pytest.mark.parametrize(
    ("name", "settings"),
    [("default", {"margin": 0.5, "scale": 64.0}), ("used", {})],
)
def test_arcface_is_that_of_token(name: str, settings: dict[str, float]) -> None:
    compare(classifier(**settings), f"arc_token_{name}", "arc_token_features", 2e-5)


def test_curricular_is_what_dolg_calls_arcface() -> None:
    classify = classifier(kind="curricular", scale=30.0).eval()
    for call in ("call1", "call2"):
        compare(classify, f"arc_dolg_{call}", "arc_dolg_features", 1e-5)
        assert relative_error(classify.t[None], GOLDEN[f"arc_dolg_{call}_t"]) < 1e-5


def test_figures_are_of_the_classes_without_their_margin() -> None:
    classify = Classifier(2, 3, margin=1.0)
    classify.weight.data = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])
    rows = torch.tensor([[3.0, 0.0], [0.6, 0.8]])
    found = classify(rows, torch.tensor([0, 0]))
    assert found.accuracy == 0.5
    assert found.near == pytest.approx((0 + 0.8) / 2)
    assert found.far == pytest.approx((2 + 0.4) / 2)


def test_halves_of_a_number_are_enough_to_begin_with() -> None:
    rows, labels = torch.randn(4, 8), torch.tensor([0, 1, 2, 0])
    classify = Classifier(8, 3)
    with torch.autocast("cpu", torch.bfloat16):
        found = classify(rows.bfloat16(), labels)
    assert found.loss.dtype == torch.float32
    assert torch.equal(found.loss, classify(rows.bfloat16(), labels).loss)


def test_an_unknown_margin_is_told() -> None:
    with pytest.raises(SolarError, match=r"'sphereface'.* arcface"):
        Classifier(8, 3, kind="sphereface")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("cosface", lambda c, labels: cosface(c, labels, margin=0.2)),
        ("arcface", lambda c, labels: arcface(c, labels, margin=0.3, threshold=False, eps=1e-7)),
    ],
)
def test_margins_are_those_of_ilias(name: str, found: object) -> None:
    cosines = torch.from_numpy(GOLDEN["ilias_cosines"]).requires_grad_()
    labels = torch.from_numpy(GOLDEN["ilias_labels"][: len(cosines)]).long()
    loss = F.cross_entropy(16 * found(cosines, labels), labels)  # type: ignore[operator]
    loss.backward()
    assert relative_error(loss, GOLDEN[f"ilias_{name}_loss"]) < 1e-5
    assert cosines.grad is not None
    assert relative_error(cosines.grad, GOLDEN[f"ilias_{name}_grad_cosines"]) < 1e-5


def slow_arcface(cosine: float, margin: float) -> float:
    angle = acos(cosine)
    return cosine if angle > pi - margin else cos(angle + margin)


def slow_curricular(cosines: list[float], label: int, margin: float, t: float) -> list[float]:
    a = cosines[label]
    b = a * cos(margin) - (1 - a * a) ** 0.5 * sin(margin)
    out = [c * (t + c) if c > b else c for c in cosines]
    out[label] = b if a > cos(pi - margin) else a - margin * sin(pi - margin)
    return out


COSINES = torch.tensor([[0.3, 0.9, -0.2], [-0.99, 0.1, 0.5], [0.2, 0.2, 0.7]]).double()
LABELS = torch.tensor([1, 0, 2])


def test_margins_are_those_of_a_slow_loop() -> None:
    arc, cosine, curriculum = COSINES.tolist(), COSINES.tolist(), COSINES.tolist()
    for row, label in enumerate(LABELS.tolist()):
        arc[row][label] = slow_arcface(arc[row][label], 0.4)
        cosine[row][label] -= 0.4
        curriculum[row] = slow_curricular(curriculum[row], label, 0.4, 0.3)
    t = torch.tensor(0.3, dtype=torch.float64)
    pairs: list[tuple[Tensor, list[list[float]]]] = [
        (arcface(COSINES, LABELS, margin=0.4), arc),
        (cosface(COSINES, LABELS, margin=0.4), cosine),
        (curricular(COSINES, LABELS, margin=0.4, t=t), curriculum),
    ]
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "margin",
    [
        arcface,
        cosface,
        lambda c, labels: curricular(c, labels, t=torch.tensor(0.3, dtype=torch.float64)),
    ],
)
def test_gradients_are_those_of_small_steps(margin: object) -> None:
    cosines = COSINES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: margin(c, LABELS), (cosines,))  # type: ignore[operator]


def test_a_descriptor_on_its_class_has_a_gradient_that_is_a_number() -> None:
    for margin in (arcface, lambda c, labels: curricular(c, labels, t=torch.tensor(0.0))):
        cosines = torch.eye(3).requires_grad_()
        margin(cosines, torch.arange(3)).sum().backward()
        assert cosines.grad is not None
        assert cosines.grad.isfinite().all()


def test_shapes_that_do_not_fit_are_told() -> None:
    with pytest.raises(SolarError, match=r"cosines.* labels"):
        arcface(torch.eye(3), torch.arange(2))
