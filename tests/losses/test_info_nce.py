import math

import pytest
import torch

from solar.errors import SolarError
from solar.losses import info_nce


def test_it_is_what_its_formula_says() -> None:
    torch.manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(6, 4), dim=1)
    labels = [0, 0, 1, 1, 1, 2]
    kin = torch.tensor([[a == b for b in labels] for a in labels])
    terms = []
    for i, mine in enumerate(labels):
        negatives = [
            math.exp(float(rows[i] @ rows[j]) / 0.2) for j, b in enumerate(labels) if b != mine
        ]
        each = [
            -math.log(e / (e + sum(negatives)))
            for j, b in enumerate(labels)
            if b == mine and j != i
            for e in [math.exp(float(rows[i] @ rows[j]) / 0.2)]
        ]
        if each:
            terms.append(sum(each) / len(each))
    expected = sum(terms) / len(terms)
    assert float(info_nce(rows, kin, temperature=0.2)) == pytest.approx(expected, rel=1e-5)


def test_positives_do_not_compete_as_in_the_supervised_contrast() -> None:
    """Three equal rows have nothing to lose here; there, each is one choice of two."""
    rows, kin = torch.ones(3, 1), torch.ones(3, 3).bool()
    logits = (rows @ rows.T).masked_fill(torch.eye(3).bool(), -torch.inf)
    supervised = -logits.log_softmax(1)[0, 1]
    assert float(supervised) == pytest.approx(math.log(2))
    assert float(info_nce(rows, kin, temperature=1)) == 0


def test_its_gradient_is_finite_where_all_are_kin_and_where_none_is() -> None:
    for kin in (torch.ones(4, 4).bool(), torch.zeros(4, 4).bool()):
        rows = torch.eye(4, requires_grad=True)
        loss = info_nce(rows, kin)
        loss.backward()
        assert float(loss) == 0
        assert rows.grad is not None
        assert rows.grad.isfinite().all()


def test_half_precision_is_computed_in_full() -> None:
    rows = torch.nn.functional.normalize(torch.randn(8, 16), dim=1).to(torch.bfloat16)
    kin = torch.eye(8).bool().roll(1, 0) | torch.eye(8).bool().roll(-1, 0)
    assert torch.equal(info_nce(rows, kin), info_nce(rows.float(), kin))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SolarError, match="3 × 3"):
        info_nce(torch.eye(3), torch.eye(2).bool())
    with pytest.raises(SolarError, match="temperature"):
        info_nce(torch.eye(3), torch.eye(3).bool(), temperature=0)
