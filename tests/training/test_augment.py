from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from solar.errors import SolarError
from solar.training.augment import Augmentation, augment, jpeg_like, warp

STRONG = Augmentation(
    crop=0.7, stretch=0.3, flip=0.5, rotate=15, homography=0.3, colour=0.5, hue=30, gamma=0.5,
    grey=0.2, blur=0.5, noise=0.05, blocks=0.5, erase=0.5,
)  # fmt: skip


def dice(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def photos() -> Tensor:
    """Smooth, so that resampling them loses little."""
    rough = torch.rand(6, 3, 6, 8, generator=dice(0))
    return torch.nn.functional.interpolate(rough, (48, 64), mode="bicubic").clamp(0, 1)


def test_the_same_generator_gives_the_same_photos(photos: Tensor) -> None:
    torch.testing.assert_close(
        augment(photos, STRONG, dice()), augment(photos, STRONG, dice()), rtol=0, atol=0
    )
    assert (augment(photos, STRONG, dice(2)) != augment(photos, STRONG, dice())).any()


def test_settings_do_not_change_how_much_chance_is_used(photos: Tensor) -> None:
    one, other = dice(), dice()
    augment(photos, STRONG, one)
    augment(photos, Augmentation(), other)
    assert torch.equal(one.get_state(), other.get_state())


def test_no_strength_changes_nothing(photos: Tensor) -> None:
    assert torch.equal(augment(photos, Augmentation(), dice()), photos)


@pytest.mark.parametrize("strength", sorted(f.name for f in fields(Augmentation)))
def test_each_strength_alone_changes_photos_and_keeps_them_valid(
    photos: Tensor, strength: str
) -> None:
    value = {"rotate": 20.0, "hue": 40.0, "noise": 0.2}.get(strength, 0.9)
    changed = augment(photos, replace(Augmentation(), **{strength: value}), dice())
    assert changed.shape == photos.shape
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert (changed - photos).abs().mean() > 1e-3


@pytest.mark.parametrize("size", [32, (24, 40), 100])
def test_photos_come_out_in_the_size_asked_for(photos: Tensor, size: int | tuple[int, int]) -> None:
    shape = (size, size) if isinstance(size, int) else size
    assert augment(photos, STRONG, dice(), size=size).shape == (6, 3, *shape)


def test_bytes_are_taken_as_well(photos: Tensor) -> None:
    pixels = (photos * 255).round().byte()
    assert torch.equal(
        augment(pixels, STRONG, dice()), augment(pixels.float() / 255, STRONG, dice())
    )


def test_another_aspect_ratio_is_cut_out_and_not_squashed(photos: Tensor) -> None:
    middle = augment(photos, Augmentation(), dice(), size=48)
    torch.testing.assert_close(middle, photos[..., 8:56], atol=1e-5, rtol=0)


def test_squashed_photos_are_unsquashed(photos: Tensor) -> None:
    squashed = torch.nn.functional.interpolate(photos, (48, 48), mode="bilinear", antialias=True)
    aspects = torch.full((6,), 64 / 48)
    middle = augment(squashed, Augmentation(), dice(), aspects=aspects)
    assert (middle - photos[..., 8:56]).abs().mean() < 0.01
    assert (squashed - photos[..., 8:56]).abs().mean() > 0.05


def test_a_certain_flip_mirrors(photos: Tensor) -> None:
    flipped = augment(photos, Augmentation(flip=1.0), dice())
    torch.testing.assert_close(flipped, photos.flip(-1), atol=1e-4, rtol=0)


def test_all_grey_has_equal_channels_and_the_same_brightness(photos: Tensor) -> None:
    grey = augment(photos, Augmentation(grey=1.0), dice())
    luma = torch.einsum("c,bchw->bhw", torch.tensor([0.299, 0.587, 0.114]), photos)
    torch.testing.assert_close(grey, luma[:, None].expand_as(grey), atol=1e-3, rtol=0)


def test_a_homography_moves_content_as_its_matrix_says() -> None:
    """A lone dot at q in the photo is seen at p, where the matrix takes p to q."""
    matrix = torch.tensor([[0.9, 0.1, 0.05], [-0.15, 0.8, -0.1], [0.1, -0.2, 1.0]])
    height, width = 60, 80
    x, y = 25, 41
    photo = torch.zeros(1, 3, height, width)
    photo[..., y, x] = 1
    seen = warp(photo, matrix[None], (height, width))[0, 0]
    q = torch.tensor([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1, 1.0])
    p = torch.linalg.solve(matrix, q)
    expected = ((p[:2] / p[2] + 1) * torch.tensor([width, height]) - 1) / 2
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    found = torch.stack([(seen * columns).sum(), (seen * rows).sum()]) / seen.sum()
    torch.testing.assert_close(found, expected, atol=0.15, rtol=0)


def test_a_turn_keeps_circles_round_in_a_wide_photo() -> None:
    """A dot to the right of the middle stays at its distance, in pixels."""
    photo = torch.zeros(1, 3, 41, 81)
    photo[..., 20, 55] = 1
    turned = augment(photo, Augmentation(rotate=60), dice(3))[0, 0]
    y, x = divmod(int(turned.argmax()), 81)
    assert abs(y - 20) > 3
    assert ((y - 20) ** 2 + (x - 40) ** 2) ** 0.5 == pytest.approx(15, abs=1.2)


def test_jpeg_like_loses_less_when_it_is_less_coarse(photos: Tensor) -> None:
    odd = photos[..., :45, :50]
    loss = [
        float((jpeg_like(odd, torch.full((6,), coarse)) - odd).abs().mean())
        for coarse in (1e-4, 0.5, 4.0)
    ]
    assert loss[0] < 1e-4
    assert loss[0] < loss[1] < loss[2]


def test_erasing_hides_at_most_the_area_it_may(photos: Tensor) -> None:
    erased = augment(photos, Augmentation(erase=1.0), dice())
    hidden = (erased != photos).any(dim=1).float().mean(dim=(1, 2))
    assert (hidden > 0.005).all()
    assert (hidden < 0.28).all()


@pytest.mark.parametrize(("name", "value"), [("crop", 1.0), ("flip", 1.5), ("noise", -0.1)])
def test_a_strength_that_makes_no_sense_is_refused(name: str, value: float) -> None:
    with pytest.raises(SolarError, match=f"augmentation {name}"):
        replace(Augmentation(), **{name: value})
