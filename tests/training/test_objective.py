from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from solar import losses
from solar.errors import SolarError
from solar.losses import average_precision, contrastive, second_order, triplet
from solar.training.objective import CollapseMonitor, RetrievalLoss, objective


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    rows = F.normalize(torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), dim=1)
    return rows, torch.tensor([[0, 0, 1, 2], [1, 1, 0, 3]])


def test_solar_is_triplet_plus_weighted_second_order() -> None:
    rows, landmarks = batch()
    t = rows.view(2, 4, 6)
    parts = t[:, 0], t[:, 1], t[:, 2:]
    got = objective(rows, landmarks, RetrievalLoss(second_order=10))
    expected = triplet(*parts, margin=1.25, reduction="per_query") + 10 * second_order(
        *parts, reduction="per_query"
    )
    assert torch.equal(got["loss"], expected)
    assert got["near"].item() == pytest.approx((t[:, 0] - t[:, 1]).square().sum(1).mean().item())


def test_contrastive_has_its_own_margin() -> None:
    rows, landmarks = batch()
    t = rows.view(2, 4, 6)
    got = objective(rows, landmarks, RetrievalLoss("contrastive", reduction="sum"))
    expected = contrastive(t[:, 0], t[:, 1], t[:, 2:], margin=0.7, reduction="sum")
    assert torch.equal(got["loss"], expected)


def test_average_precision_asks_all_photos_of_the_batch() -> None:
    rows, landmarks = batch()
    t = rows.view(2, 4, 6)
    relevant = torch.tensor([[1, 0, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0]], dtype=torch.bool)
    got = objective(rows, landmarks, RetrievalLoss("average_precision"))
    expected = average_precision(t[:, 0], t[:, 1:].flatten(0, 1), relevant, bins=20)
    assert torch.equal(got["loss"], expected)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"kind": "quadruplet"},
            "loss.kind must be one of triplet, contrastive, average_precision",
        ),
        ({"reduction": "sum"}, "There is no reduction 'sum'"),
        ({"kind": "average_precision", "options": {"bins": 1}}, "at least two bins"),
        ({"options": {"temperature": 1.0}}, "triplet has no setting 'temperature'"),
    ],
)
def test_a_loss_refuses_its_settings_before_the_first_batch(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SolarError, match=complaint):
        RetrievalLoss(**settings)


def test_a_new_loss_is_one_line_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own settings reach it without a field in any recipe."""

    def pull(anchor: Tensor, positive: Tensor, negatives: Tensor, *, strength: float = 1) -> Tensor:
        return strength * (anchor - positive).square().sum(1).mean()

    monkeypatch.setitem(losses.TUPLE_LOSSES, "pull", pull)
    rows, landmarks = batch()
    got = objective(rows, landmarks, RetrievalLoss("pull", options={"strength": 3}))
    assert got["loss"] == 3 * got["near"]


def complaints(
    monitor: CollapseMonitor, spreads: list[float], far: float = 1.0
) -> list[str | None]:
    return [monitor.look({"spread": s, "near": 0.5, "far": far}) for s in spreads]


def test_falling_variance_is_called_a_collapse() -> None:
    found = complaints(
        CollapseMonitor(RetrievalLoss(), window=4), [0.8] * 4 + [0.6, 0.3, 0.1, 0.05, 0.04, 0.03]
    )
    assert found[:8] == [None] * 8
    assert found[-1] is not None
    assert "collapsed" in found[-1]


def test_descriptors_that_spread_out_are_well() -> None:
    rising = [0.001 * 1.2**n for n in range(12)]
    assert complaints(CollapseMonitor(RetrievalLoss(), window=4), rising) == [None] * 12


def test_a_loss_that_sits_at_its_margin_is_told() -> None:
    found = complaints(CollapseMonitor(RetrievalLoss(), window=4), [0.9] * 4, far=0.51)
    assert found[-1] is not None
    assert "margin of 1.25" in found[-1]


def test_monitor_goes_on_from_a_checkpoint() -> None:
    monitor, other = (
        CollapseMonitor(RetrievalLoss(), window=4),
        CollapseMonitor(RetrievalLoss(), window=4),
    )
    complaints(monitor, [0.9, 0.8, 0.7, 0.6, 0.5])
    other.load_state_dict(monitor.state_dict())
    assert other.state_dict() == monitor.state_dict()
