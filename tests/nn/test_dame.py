import pytest
import torch
from support.drawn import relative_error
from support.golden2 import drawn, golden2

from solar.models import RetrievalConfig, RetrievalNet
from solar.nn import DAME, GeM, l2_normalize

GOLDEN = golden2("dame")
MAPS = [torch.from_numpy(GOLDEN[f"dame_map_{i}"]) for i in range(3)]


@pytest.fixture(scope="module")
def pool() -> DAME:
    channels = MAPS[0].shape[1]
    pool = DAME(channels)
    weights = {"fc.weight": (1, channels), "fc.bias": (1,)}
    pool.load_state_dict({key: drawn(f"DAME3.{key}", shape) for key, shape in weights.items()})
    return pool.eval()


@pytest.mark.parametrize("number", range(3))
def test_exponents_and_descriptors_equal_the_published_ones(pool: DAME, number: int) -> None:
    assert relative_error(pool.exponents(MAPS[number]), GOLDEN[f"dame_p_{number}"]) < 1e-5
    assert relative_error(pool(MAPS[number]), GOLDEN[f"dame_desc_{number}"]) < 1e-5


def test_the_average_over_scales_equals_the_published_one(pool: DAME) -> None:
    net = RetrievalNet(RetrievalConfig("resnet18", pooling="dame", whitening=False))
    scales = [l2_normalize(pool(one[:1])) for one in MAPS]
    assert relative_error(net.average(scales)[0], GOLDEN["dame_multi_0"]) < 1e-5


def test_it_starts_as_gem_and_learns_an_exponent() -> None:
    x, pool = torch.rand(2, 6, 4, 5), DAME(6)
    torch.testing.assert_close(pool(x), GeM(3.0)(x))
    pool(x).sum().backward()
    assert pool.fc.weight.grad.abs().min() > 0
    assert torch.isfinite(pool.fc.weight.grad).all()
