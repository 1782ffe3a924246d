from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.fft import dctn
from scipy.ndimage import gaussian_filter

from solar.datasets.patches.hpatches_cut import JITTERS, jittered
from solar.errors import SolarError
from solar.training.patches.views import (
    PERSPECTIVE,
    Views,
    _blurred,
    _compressed,
    change_light,
    jitter,
)

NOTHING = Views(
    coarser=0, blur=0, gamma=0, gain=0, bias=0, shadow=0, noise=0, jpeg=0, chance=1
)  # fmt: skip

STRONG = Views(chance=1.0, first_chance=1.0)


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def patches(*shape: int) -> torch.Tensor:
    return (torch.rand(*shape, 1, 32, 32, generator=drawn(9)) * 255).round()


def moves(maps: torch.Tensor) -> torch.Tensor:
    """How far each map moves the corners of a patch, (n, 4)."""
    corners = torch.tensor([[-1.0, -1, 1, 1], [-1, 1, -1, 1], [1, 1, 1, 1]])
    places = maps @ corners
    return (places[:, :2] / places[:, 2:] - corners[:2]).norm(dim=1)


@pytest.mark.parametrize(("name", "letter"), [("easy", "e"), ("hard", "h"), ("tough", "t")])
def test_noise_moves_corners_as_far_as_that_of_the_benchmark(name: str, letter: str) -> None:
    unit = np.tile(np.eye(3)[:2], (20_000, 1, 1))
    theirs = jittered(unit, JITTERS[letter], np.random.default_rng(0))
    last = np.tile([[[0.0, 0, 1]]], (len(unit), 1, 1))
    expected = moves(torch.from_numpy(np.concatenate([theirs, last], 1)).float())
    ours = jitter(len(unit), (name,), drawn())
    ours[:, 2, :2] = 0  # the benchmark has no perspective
    for part in (0.1, 0.5, 0.9):
        assert moves(ours).quantile(part) == pytest.approx(float(expected.quantile(part)), rel=0.03)


def test_no_noise_leaves_frames_alone() -> None:
    maps = jitter(3, ("none",), drawn())
    torch.testing.assert_close(maps, torch.eye(3).expand(3, 3, 3))


def test_perspective_is_bounded() -> None:
    lines = jitter(1000, ("tough",), drawn())[:, 2, :2]
    assert 0.9 * PERSPECTIVE < lines.abs().max() <= PERSPECTIVE


def test_unknown_noise_is_refused() -> None:
    with pytest.raises(SolarError, match="'hardest'"):
        Views(second=("hardest",))


def test_light_can_stay_as_it_is() -> None:
    torch.testing.assert_close(change_light(patches(2, 4), NOTHING, drawn()), patches(2, 4))


def test_light_changes_within_the_range_of_bytes_and_by_the_generator_alone() -> None:
    once = change_light(patches(2, 32), STRONG, drawn(3))
    assert once.min() >= 0
    assert once.max() <= 255
    assert torch.equal(once, change_light(patches(2, 32), STRONG, drawn(3)))
    assert not torch.equal(once, change_light(patches(2, 32), STRONG, drawn(4)))


def test_first_patches_change_as_seldom_as_they_are_told() -> None:
    rare = replace(NOTHING, noise=0.1, first_chance=0.0)
    before, after = patches(2, 16), change_light(patches(2, 16), rare, drawn())
    assert torch.equal(before[0], after[0])
    assert (before[1] != after[1]).flatten(1).any(1).all()


def test_blur_is_gaussian_away_from_the_border() -> None:
    sigma = torch.tensor([0.0, 1.0, 2.0]).view(3, 1, 1, 1)
    blurred = _blurred(patches(3), sigma)
    torch.testing.assert_close(blurred[0], patches(3)[0])
    for patch, own, s in zip(blurred[1:], patches(3)[1:], (1.0, 2.0), strict=True):
        expected = gaussian_filter(own[0].numpy(), s, truncate=8)
        np.testing.assert_allclose(patch[0, 12:20, 12:20], expected[12:20, 12:20], atol=0.2)


def test_compression_leaves_whole_steps_of_the_cosine_transform() -> None:
    coarse = torch.tensor([0.0, 1.5]).view(2, 1, 1, 1)
    kept, compressed = _compressed(patches(2), coarse)
    torch.testing.assert_close(kept, patches(2)[0], atol=0.01, rtol=0)
    k = np.arange(8)
    steps = dctn(compressed[0, 8:16, 16:24].numpy(), norm="ortho") / (
        1.5 * (10 + 6 * (k[:, None] + k))
    )
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-3)
