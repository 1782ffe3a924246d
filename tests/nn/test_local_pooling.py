"""HOW and DELF against the published code's numbers, on maps and pieces."""

import numpy as np
import pytest
import torch
from support.drawn import relative_error
from support.golden2 import drawn, golden2
from torch import nn

from solar.nn import pca_whitening
from solar.nn.local_pooling import RECONSTRUCTION, Delf, Delg, How, smoothed

HOW, DELF = golden2("how"), golden2("delf")


@pytest.fixture(scope="module")
def conv4() -> torch.Tensor:
    return torch.from_numpy(DELF["delg_map"].astype(np.float32))[None]


def with_drawn_weights(pool: nn.Module, prefix: tuple[str, str] = ("", "")) -> nn.Module:
    ours, theirs = prefix
    for name, value in pool.state_dict().items():
        value.copy_(drawn(name.replace(ours, theirs, 1), tuple(value.shape)))
    return pool.eval()


def test_smoothing_takes_the_mean_of_what_exists() -> None:
    found = smoothed(torch.from_numpy(HOW["how_smooth_x"]))
    assert relative_error(found, HOW["how_smooth_y"]) < 1e-6


def test_the_whitening_is_a_pca_of_local_descriptors() -> None:
    found = pca_whitening(torch.from_numpy(HOW["how_pca_x"]))
    mean, matrix = HOW["how_pca_mean"][0], HOW["how_pca_P"].T
    assert relative_error(found.mean.numpy(), mean) < 2e-3
    ours = found.matrix.numpy()
    signs = np.sign((ours * matrix).sum(axis=1, keepdims=True))
    assert relative_error(signs * ours, matrix) < 2e-3
    layer, pool = found.linear(), How(16, 8)
    pool.start_from(layer.weight, layer.bias)
    assert torch.equal(pool.reduce.weight[:, :, 0, 0], layer.weight[:8])
    x = torch.from_numpy(HOW["how_pca_x"]).T[None, :, :, None]
    white = pool.reduce(x)[0, :, :, 0]
    assert (white @ white.T / white.shape[1] - torch.eye(8)).abs().max() < 1e-3


def test_strength_is_the_norm_before_smoothing_and_scaling_the_map_scales_it() -> None:
    torch.manual_seed(0)
    pool, x = How(6, 4), torch.rand(2, 6, 5, 7)
    strength, descriptors = pool.local(x)
    assert torch.allclose(strength, x.norm(dim=1), atol=1e-6)
    weighed = strength[:, None] / strength.amax(dim=(1, 2))[:, None, None, None] * descriptors
    assert torch.allclose(pool(x), weighed.sum(dim=(2, 3)), atol=1e-5)


def test_delf_gives_the_golden_numbers(conv4: torch.Tensor) -> None:
    pool = with_drawn_weights(Delf(1024))
    assert isinstance(pool, Delf)
    with torch.no_grad():
        strength, descriptors = pool.local(conv4)
        code, restored = pool.autoencoder(conv4)
        inside = pool.attention.bn(pool.attention.conv1(conv4)).relu()
        score = pool.attention.conv2(inside)[0, 0]
        assert relative_error(score, DELF["delf_score"]) < 1e-5
        assert relative_error(strength[0], DELF["delf_prob"]) < 1e-5
        assert relative_error(code[0].movedim(0, -1), DELF["delf_reduced"]) < 1e-5
        assert relative_error(restored[0, :, 0, 0], DELF["delf_expanded_first"]) < 1e-5
        assert relative_error(pool(conv4)[0], DELF["delf_pooled_expanded"]) < 1e-5
        unit = conv4 / conv4.norm(dim=1, keepdim=True)
        plain = (strength[:, None] * unit).mean(dim=(2, 3))[0]
    assert relative_error(plain, DELF["delf_pooled_input"]) < 1e-5
    reduced = torch.from_numpy(DELF["delf_reduced"])
    expected = reduced / reduced.norm(dim=2, keepdim=True)
    assert relative_error(descriptors[0].movedim(0, -1), expected.numpy()) < 1e-5


def test_delg_gives_the_golden_numbers(conv4: torch.Tensor) -> None:
    pool = with_drawn_weights(Delg(1024), ("attention.", "localmodel."))
    assert isinstance(pool, Delg)
    with torch.no_grad():
        strength, descriptors = pool.local(conv4)
        assert relative_error(strength[0], DELF["delg_scores"]) < 1e-5
        weighed = strength[:, None] * descriptors
        assert relative_error(weighed[0], DELF["delg_features"]) < 1e-5
        assert relative_error(pool(conv4)[0], DELF["delg_features"].mean(axis=(1, 2))) < 1e-5
    first = DELF["delg_local_first20"]
    found = descriptors[0].flatten(1).T[: len(first)]
    assert relative_error(found, first) < 1e-5


def test_what_the_autoencoder_loses_is_minimised_beside_any_loss() -> None:
    torch.manual_seed(0)
    pool, x = Delf(12, 8, 4).train(), torch.rand(2, 12, 3, 4)
    wanted = torch.randn(2, 12)
    (pool(x) * wanted).sum().backward()
    found = {name: p.grad.clone() for name, p in pool.named_parameters() if p.grad is not None}
    pool.zero_grad()
    pool.attention.bn.train()
    score, _ = pool.attention(x)
    _, restored = pool.autoencoder(x)
    unit = restored / restored.norm(dim=1, keepdim=True).clamp(min=1e-12)
    pooled = (score[:, None] * unit).mean(dim=(2, 3))
    loss = (pooled * wanted).sum() + RECONSTRUCTION * (restored - x).square().mean()
    loss.backward()
    for name, p in pool.named_parameters():
        assert torch.allclose(found[name], p.grad, atol=1e-5), name
    with torch.no_grad():
        assert torch.equal(pool(x), pool(x))  # nothing is added where nothing learns
