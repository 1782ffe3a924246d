import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import relative_error
from support.golden2 import drawn, golden2

from solar.models import RetrievalConfig, RetrievalNet
from solar.nn import DAME, POOLINGS, GeM, Regional, l2_normalize
from solar.nn.pooling import MAC, RMAC, CroW, SPoC, square_regions


@pytest.mark.parametrize("p", [1.0, 3.0, 5.5])
def test_gem_equals_the_published_one(golden: dict[str, np.ndarray], p: float) -> None:
    pooled = GeM(p)(torch.from_numpy(golden["gem_x"]))
    assert relative_error(pooled, golden[f"gem_p{p}"]) < 1e-5


def test_gem_with_p_one_is_the_mean_and_with_large_p_nearly_the_maximum() -> None:
    x = torch.rand(2, 8, 5, 7) + 0.1
    torch.testing.assert_close(GeM(1.0)(x), SPoC()(x))
    torch.testing.assert_close(GeM(200.0)(x.double().float()), MAC()(x), rtol=0.03, atol=0)


def test_gem_per_channel_uses_each_channels_exponent() -> None:
    x = torch.rand(2, 3, 4, 5) + 0.1
    pool = GeM(channels=3)
    with torch.no_grad():
        pool.p.copy_(torch.tensor([1.0, 2.0, 4.0]))
    for channel, p in enumerate((1.0, 2.0, 4.0)):
        torch.testing.assert_close(pool(x)[:, channel], GeM(p)(x)[:, channel])


def test_gem_is_computed_and_returned_in_float32() -> None:
    x = torch.rand(1, 4, 6, 6)
    torch.testing.assert_close(GeM()(x.bfloat16()), GeM()(x.bfloat16().float()), rtol=0, atol=0)
    assert GeM()(x.half()).dtype == torch.float32


def test_gem_with_a_fixed_exponent_is_saved_and_does_not_learn() -> None:
    x, fixed = torch.rand(2, 3, 4, 5), POOLINGS["gem-fixed"](3)
    assert torch.equal(fixed(x), GeM(3.0)(x))
    assert list(fixed.parameters()) == []
    assert fixed.state_dict().keys() == GeM().state_dict().keys()


def test_gem_learns_its_exponent_even_where_nothing_fires() -> None:
    pool = GeM()
    pool(torch.zeros(1, 2, 3, 3)).sum().backward()
    assert torch.isfinite(pool.p.grad).all()


@pytest.mark.parametrize("shape", ["wide", "tall", "square"])
def test_rmac_equals_the_published_one(golden: dict[str, np.ndarray], shape: str) -> None:
    pooled = RMAC()(torch.from_numpy(golden[f"rmac_{shape}_x"]))
    assert relative_error(pooled, golden[f"rmac_{shape}_y"]) < 1e-5


def test_l2_norm_equals_the_published_one(golden: dict[str, np.ndarray]) -> None:
    assert relative_error(l2_normalize(torch.from_numpy(golden["gem_x"])), golden["l2n_y"]) < 1e-5


def test_l2_norm_adds_its_epsilon_to_the_norm() -> None:
    x = torch.tensor([[3e-6, 4e-6]], dtype=torch.float64)
    torch.testing.assert_close(l2_normalize(x), x / 6e-6)
    assert torch.equal(l2_normalize(torch.zeros(1, 3)), torch.zeros(1, 3))


def test_crow_equals_a_loop_over_locations_and_channels() -> None:
    x = torch.relu(torch.randn(1, 4, 3, 5, generator=torch.Generator().manual_seed(1)))
    energy = x[0].sum(0)
    spatial = (energy / (energy**2).sum().sqrt()).sqrt()
    firing = torch.stack([(x[0, c] > 0).float().mean() for c in range(4)])
    expected = torch.stack(
        [(x[0, c] * spatial).sum() * torch.log(firing.sum() / firing[c]) for c in range(4)]
    )
    torch.testing.assert_close(CroW()(x)[0], expected, rtol=1e-4, atol=1e-4)


def test_regional_pooling_whitens_every_region() -> None:
    x, whiten = torch.rand(1, 6, 8, 8), torch.nn.Linear(6, 6)
    boxes = [(0, 0, 8, 8), *square_regions(8, 8)]
    regions = [l2_normalize(GeM()(x[:, :, t:b, left:r])) for t, left, b, r in boxes]
    expected = sum(l2_normalize(whiten(region)) for region in regions)
    torch.testing.assert_close(Regional(GeM(), whiten)(x), expected)


@settings(max_examples=200, deadline=None)
@given(h=st.integers(1, 60), w=st.integers(1, 60))
def test_regions_are_squares_inside_the_map(h: int, w: int) -> None:
    for top, left, bottom, right in square_regions(h, w):
        assert bottom - top == right - left > 0
        assert top >= 0
        assert left >= 0
        assert bottom <= h
        assert right <= w


# Where the squares of a map's first row begin in the published code, level by level: shapes at
# which rounding decides.
ROUNDED = {
    (5, 9): [0, 4, 0, 3, 6, 0, 2, 4, 7],
    (20, 36): [0, 16, 0, 11, 23, 0, 8, 17, 26],
    (15, 55): [0, 10, 20, 30, 40, 0, 9, 18, 27, 36, 45, 0, 8, 16, 24, 32, 40, 48],
    (25, 61): [0, 12, 24, 36, 0, 11, 22, 33, 45, 0, 9, 19, 29, 39, 49],
    (22, 94): [
        *(0, 12, 24, 36, 48, 60, 72, 0, 11, 22, 34, 45, 57, 68, 80),
        *(0, 10, 20, 31, 41, 51, 62, 72, 83),
    ],
}


@pytest.mark.parametrize("shape", ROUNDED)
def test_regions_round_as_the_published_ones(shape: tuple[int, int]) -> None:
    height, width = shape
    assert [left for top, left, _, _ in square_regions(height, width) if top == 0] == ROUNDED[shape]
    tall = [top for top, left, _, _ in square_regions(width, height) if left == 0]
    assert tall == ROUNDED[shape]


@pytest.mark.parametrize("name", POOLINGS)
@settings(max_examples=10, deadline=None)
@given(h=st.integers(1, 9), w=st.integers(1, 9))
def test_every_pooling_takes_any_map_down_to_one_location(name: str, h: int, w: int) -> None:
    pool = POOLINGS[name](5).eval()
    pooled = pool(torch.rand(2, 5, h, w))
    assert pooled.shape == (2, getattr(pool, "dim", 5))
    assert torch.isfinite(pooled).all()


@pytest.mark.parametrize("name", ["gem", "gemmp", "spoc", "mac", "dame"])
def test_locations_add_up_to_what_is_pooled(name: str) -> None:
    pool = POOLINGS[name](6)
    x = torch.randn(2, 6, 5, 4)
    x[0, :, 0, 0] = x[0, :, 1, 1] = x.amax() + 1  # two equal maxima
    split = pool.split(x)
    torch.testing.assert_close(split.sum(dim=(2, 3)), pool(x))
    assert split.shape == x.shape
    torch.testing.assert_close(split[0, :, 0, 0], split[0, :, 1, 1])
    if name == "mac":
        assert int((split[0] != 0).sum()) == 12


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
