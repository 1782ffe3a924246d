"""Images resized to a grid of patches."""

import pytest
import torch

from solar.nn.backbones.backbone import ToGrid, resize


@pytest.mark.parametrize(
    ("sides", "scale", "expected"),
    [
        ((28, 42), 1.0, (28, 42)),
        ((34, 35), 1.0, (28, 42)),  # 2.43 and 2.5 patches: to the nearest, half of one up
        ((28, 42), 0.5, (14, 28)),
        ((100, 75), 2**0.5, (140, 112)),
        ((7, 20), 1.0, (14, 14)),
    ],
)
def test_sides_become_the_nearest_multiples(
    sides: tuple[int, int], scale: float, expected: tuple[int, int]
) -> None:
    assert resize(torch.rand(1, 3, *sides), scale, 14).shape[2:] == expected


def test_images_that_fit_are_not_touched() -> None:
    images = torch.rand(1, 3, 28, 42)
    assert resize(images, 1.0, 14) is images
    assert ToGrid(14)(images) is images


def test_the_interpolation_is_the_one_asked_for() -> None:
    images = torch.rand(1, 3, 30, 40)
    bilinear, bicubic = (resize(images, 1.0, 14, mode) for mode in ("bilinear", "bicubic"))
    assert bilinear.shape == bicubic.shape == (1, 3, 28, 42)
    assert (bilinear - bicubic).abs().max() > 1e-3
    assert images.amin() <= bilinear.amin()
    assert bilinear.amax() <= images.amax()
