from math import exp

import pytest
import torch

from solar.errors import SolarError
from solar.training.schedule import Schedule


@pytest.mark.parametrize("epoch", [0, 1, 7, 50])
@pytest.mark.parametrize("within", [0, 249])
def test_the_published_rate_falls_once_an_epoch(epoch: int, within: int) -> None:
    step = epoch * 250 + within
    factor = Schedule().factor(step, steps=25_000, steps_per_epoch=250)
    assert factor == exp(-0.01 * epoch)


def test_warm_up_climbs_to_the_base() -> None:
    schedule = Schedule("constant", warmup=3)
    assert [schedule.factor(s, steps=9) for s in range(5)] == [0.25, 0.5, 0.75, 1, 1]


@pytest.mark.parametrize(("kind", "half"), [("cosine", 0.5), ("linear", 0.5)])
def test_cosine_and_linear_end_at_the_final_part(kind: str, half: float) -> None:
    schedule = Schedule(kind, final=0.1)  # type: ignore[arg-type]
    assert schedule.factor(0, steps=10) == 1
    assert schedule.factor(5, steps=10) == pytest.approx(0.1 + 0.9 * half)
    assert schedule.factor(10, steps=10) == pytest.approx(0.1)


def test_each_group_keeps_its_own_base() -> None:
    a, b = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimiser = torch.optim.Adam([{"params": [a], "lr": 1.0}, {"params": [b], "lr": 100.0}])
    for _ in range(2):
        Schedule().apply(optimiser, 10, steps=100, steps_per_epoch=10)
    assert [group["lr"] for group in optimiser.param_groups] == [exp(-0.01), 100 * exp(-0.01)]


def test_a_negative_warm_up_is_refused() -> None:
    with pytest.raises(SolarError, match="warmup must be"):
        Schedule(warmup=-1)
