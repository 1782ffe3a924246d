import pytest
import torch
from support.drawn import relative_error
from support.golden2 import golden2

from solar.errors import SolarError
from solar.losses import Classifier

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
    with pytest.raises(SolarError, match="There is no margin 'sphereface': choose arcface, "):
        Classifier(8, 3, kind="sphereface")
