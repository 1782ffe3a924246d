import torch
from torch import nn

from solar.training.ema import EMA


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
