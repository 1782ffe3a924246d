import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import draw, relative_error
from support.whole_maps import forward_with_map

from solar.models.published_layouts import published_name
from solar.nn import SecondOrderAttention, soa


def drawn_block(channels: int, reduction: int) -> SecondOrderAttention:
    block = SecondOrderAttention(channels, reduction).eval()
    state = {}
    for name, tensor in block.state_dict().items():
        key = published_name(f"backbone.soa4.{name}", "solar").removeprefix("features.soa4.")
        state[name] = draw(key, tuple(tensor.shape))
    block.load_state_dict(state)
    return block


@pytest.mark.parametrize(("channels", "reduction"), [(64, 4), (32, 2)])
def test_equals_the_published_block(
    golden: dict[str, np.ndarray], channels: int, reduction: int
) -> None:
    name = f"soa_{channels}_{reduction}"
    block, x = drawn_block(channels, reduction), torch.from_numpy(golden[f"{name}_x"])
    explicit, attention = forward_with_map(block, x)
    assert relative_error(block(x), golden[f"{name}_y"]) < 1e-5
    assert relative_error(explicit, golden[f"{name}_y"]) < 1e-5
    assert relative_error(attention, golden[f"{name}_attention"]) < 1e-5


@pytest.mark.parametrize(("channels", "reduction"), [(64, 4), (32, 2)])
def test_attention_of_pictures_equals_the_published_flatter_map(
    golden: dict[str, np.ndarray], channels: int, reduction: int
) -> None:
    name = f"soa_{channels}_{reduction}"
    _, attention = forward_with_map(
        drawn_block(channels, reduction), torch.from_numpy(golden[f"{name}_x"]), picture_scale=True
    )
    assert relative_error(attention, golden[f"{name}_attention_drawn"]) < 1e-5


@settings(max_examples=25, deadline=None)
@given(h=st.integers(1, 17), w=st.integers(1, 17), seed=st.integers(0, 99))
def test_fused_and_explicit_attention_agree(h: int, w: int, seed: int) -> None:
    block = drawn_block(32, 2)
    x = torch.randn(2, 32, h, w, generator=torch.Generator().manual_seed(seed))
    explicit, attention = forward_with_map(block, x)
    torch.testing.assert_close(block(x), explicit, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(attention.sum(-1), torch.ones(2, h * w), rtol=1e-5, atol=1e-5)


def test_fused_and_explicit_attention_agree_on_channels_last_maps() -> None:
    block = drawn_block(64, 4)
    x = torch.randn(2, 64, 9, 7, generator=torch.Generator().manual_seed(0))
    last = x.to(memory_format=torch.channels_last)
    torch.testing.assert_close(block(last), forward_with_map(block, x)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("picture", [False, True])
@pytest.mark.parametrize(("channels", "reduction"), [(64, 4), (32, 2)])
def test_rows_without_the_map_are_those_of_the_map(
    golden: dict[str, np.ndarray], channels: int, reduction: int, picture: bool
) -> None:
    name = f"soa_{channels}_{reduction}"
    block, x = drawn_block(channels, reduction), torch.from_numpy(golden[f"{name}_x"])
    out, factors = block.forward_with_factors(x, picture_scale=picture)
    places = torch.tensor([0, 17, 5, 62])
    expected = golden[f"{name}_attention{'_drawn' if picture else ''}"][:, places]
    rows = torch.softmax(factors.queries[:, places] @ factors.keys.mT, dim=-1)
    assert relative_error(rows, expected) < 1e-5
    torch.testing.assert_close(
        out, forward_with_map(block, x, picture_scale=picture)[0], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("init", ["kaiming", "orthogonal"])
def test_a_fresh_block_is_the_identity(init: str) -> None:
    block, x = SecondOrderAttention(32, 2, init=init), torch.rand(2, 32, 5, 6)  # type: ignore[arg-type]
    assert torch.equal(block(x), x)


def test_a_fresh_block_can_learn() -> None:
    block = SecondOrderAttention(32, 2)
    block(torch.rand(2, 32, 5, 6)).square().sum().backward()
    assert block.output.weight.grad.abs().sum() > 0  # the rest follows once this is no longer zero


@pytest.mark.parametrize(
    ("channels", "reduction", "parameters"),
    [(1024, 4, 1_051_392), (2048, 2, 8_397_824), (64, 4, 4_272), (128, 2, 33_344)],
)
def test_parameter_counts_of_the_published_blocks(
    channels: int, reduction: int, parameters: int
) -> None:
    block = SecondOrderAttention(channels, reduction)
    assert sum(p.numel() for p in block.parameters()) == parameters


def test_a_reduction_larger_than_the_channels_is_refused() -> None:
    with pytest.raises(ValueError, match="reduction 8"):
        SecondOrderAttention(4, 8)


def test_what_was_gathered_is_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the whole map; in blocks, and with an output of nothing among them."""
    torch.manual_seed(1)
    block = SecondOrderAttention(8, reduction=2).eval()
    for parameter in block.output.parameters():
        torch.nn.init.normal_(parameter)
    x, parts = torch.rand(1, 8, 5, 4), torch.rand(1, 8, 5, 4)
    monkeypatch.setattr(soa, "_BLOCK", 60)  # three of twenty rows at a time
    with torch.inference_mode():
        out, z = forward_with_map(block, x)
        found = block.trace(x, block.forward_with_factors(x), parts)
        gathered = torch.nn.functional.conv2d(block.value(x), block.output.weight).flatten(2)[0]
        own = (x + block.output.bias[:, None, None]).flatten(2)[0]
        share = (parts / out).flatten(2)[0]
        expected = share * own
        for i in range(20):
            for j in range(20):
                expected[:, j] += share[:, i] * z[0, i, j] * gathered[:, j]
    torch.testing.assert_close(found.flatten(2)[0], expected)
    torch.testing.assert_close(found.sum(dim=(2, 3)), parts.sum(dim=(2, 3)))

    dead = SecondOrderAttention(8, reduction=2).eval()  # the identity
    nothing = torch.zeros(1, 8, 5, 4)
    ran = dead.forward_with_factors(nothing)
    torch.testing.assert_close(dead.trace(nothing, ran, parts), parts)
