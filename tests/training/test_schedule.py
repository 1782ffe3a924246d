from math import exp

import pytest
import torch
from torch import nn

from solar.errors import SolarError
from solar.training.schedule import EMA, Schedule


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


def net(value: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, value)
    return layer


def test_the_average_follows_with_its_decay() -> None:
    model = net(0.0)
    average = EMA(model, decay=0.1)
    nn.init.constant_(model.weight, 1.0)
    average.update(model)
    assert average.values["weight"].item() == torch.tensor(0.9).item()


def test_it_is_lent_to_the_network_and_taken_back() -> None:
    model = net(0.0)
    average = EMA(model, decay=0.9)
    nn.init.constant_(model.weight, 1.0)
    with average.applied(model):
        assert model.weight.item() == 0.0
    assert model.weight.item() == 1.0


def test_counters_are_taken_over_as_they_are() -> None:
    model = nn.BatchNorm1d(2)
    average = EMA(model, decay=0.5)
    model(torch.randn(4, 2))
    average.update(model)
    assert average.values["num_batches_tracked"].item() == 1


def test_frozen_parameters_are_not_copied() -> None:
    model = net(0.0).requires_grad_(False)
    assert EMA(model, decay=0.9).values == {}


def test_a_saved_average_goes_on() -> None:
    model = net(0.0)
    average, other = EMA(model, decay=0.9), EMA(net(5.0), decay=0.9)
    nn.init.constant_(model.weight, 1.0)
    average.update(model)
    other.load_state_dict(average.state_dict())
    average.update(model)
    other.update(model)
    assert other.values["weight"].item() == average.values["weight"].item()
