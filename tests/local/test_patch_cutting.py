import cv2
import numpy as np
import pytest
import torch

from solar.demo import toy
from solar.errors import SolarError
from solar.local.patch_cutting import GreyPhotos, cut, halvings, square_frames


@pytest.fixture(scope="module")
def photos() -> list[np.ndarray]:
    sizes = [(96, 64), (61, 83), (48, 48)]
    return [np.asarray(toy.landmark(i, 0, size=size).convert("L")) for i, size in enumerate(sizes)]


def frames_inside(rng: np.random.Generator, count: int, shape: tuple[int, int]) -> torch.Tensor:
    points = rng.uniform(0.2, 0.8, (count, 2)) * (shape[1], shape[0])
    affine = square_frames(points, rng.uniform(8, 31, count), rng.uniform(0, 6.28, count))
    affine[:, :, :2] += torch.from_numpy(rng.normal(0, 0.7, (count, 2, 2))).float()
    return affine


def slow_patch(photo: np.ndarray, frame: np.ndarray, size: int) -> np.ndarray:
    """Pixel by pixel, from the photo itself."""
    out = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            u, v = (2 * j + 1) / size - 1, (2 * i + 1) / size - 1
            place = frame @ (u, v, 1)
            x, y = place[:2] / place[2] if len(place) == 3 else place
            x = min(max(x, 0), photo.shape[1] - 1)
            y = min(max(y, 0), photo.shape[0] - 1)
            x0, y0 = int(x), int(y)
            x1, y1 = min(x0 + 1, photo.shape[1] - 1), min(y0 + 1, photo.shape[0] - 1)
            a, b = x - x0, y - y0
            upper = (1 - a) * photo[y0, x0] + a * photo[y0, x1]
            lower = (1 - a) * photo[y1, x0] + a * photo[y1, x1]
            out[i, j] = (1 - b) * upper + b * lower
    return out


def test_patches_of_several_photos_equal_a_loop_over_pixels(photos: list[np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    numbers = torch.tensor([0, 2, 1, 1, 0, 2])
    frames = torch.cat([frames_inside(rng, 1, photos[n].shape) for n in numbers])
    ours = cut(GreyPhotos.lay(photos), frames, numbers)
    assert ours.shape == (6, 1, 32, 32)
    for patch, frame, n in zip(ours, frames.double().numpy(), numbers, strict=True):
        np.testing.assert_allclose(patch[0], slow_patch(photos[n], frame, 32), atol=2e-3)


def test_beyond_the_border_the_border_is_repeated(photos: list[np.ndarray]) -> None:
    frame = square_frames(np.array([[1.0, 62.0]]), np.array([30.0]), np.array([0.4]))
    [[patch]] = cut(photos[0], frame)
    np.testing.assert_allclose(patch, slow_patch(photos[0], frame[0].numpy(), 32), atol=2e-3)


def test_opencv_cuts_the_same_patch(photos: list[np.ndarray]) -> None:
    [frame] = frames_inside(np.random.default_rng(1), 1, photos[0].shape)
    size = 48
    pixels = np.array([[2 / size, 0, 1 / size - 1], [0, 2 / size, 1 / size - 1], [0, 0, 1]])
    matrix = frame.double().numpy() @ pixels
    theirs = cv2.warpAffine(
        photos[0].astype(np.float32), matrix, (size, size),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    [[ours]] = cut(photos[0], frame[None], size=size)
    assert np.abs(ours.numpy() - theirs).max() < 4  # OpenCV rounds places to 1/32 of a pixel
    assert np.abs(ours.numpy() - theirs).mean() < 0.3


def test_a_projective_frame_divides_by_its_depth(photos: list[np.ndarray]) -> None:
    frame = torch.eye(3)[None].repeat(1, 1, 1)
    frame[0, :2] = square_frames(np.array([[40.0, 30.0]]), np.array([24.0]), np.array([0.2]))[0]
    frame[0, 2, :2] = torch.tensor([0.2, -0.1])
    [[patch]] = cut(photos[0], frame)
    np.testing.assert_allclose(patch, slow_patch(photos[0], frame[0].numpy(), 32), atol=2e-3)


def test_an_affine_frame_and_its_scaled_homography_agree(photos: list[np.ndarray]) -> None:
    # A side of 60 at 16 pixels shrinks, so the level chosen must agree as well.
    affine = square_frames(np.array([[45.0, 30.0]]), np.array([60.0]), np.array([1.0]))
    homography = 3 * torch.cat([affine, torch.tensor([[[0.0, 0.0, 1.0]]])], 1)
    torch.testing.assert_close(
        cut(photos[0], affine, size=16), cut(photos[0], homography, size=16), atol=1e-3, rtol=0
    )


def test_shrinking_averages_instead_of_aliasing() -> None:
    stripes = np.zeros((256, 256), np.uint8)
    stripes[:, ::2] = 255
    frame = square_frames(np.array([[127.0, 127.0]]), np.array([200.0]), np.array([0.0]))
    patch = cut(stripes, frame, size=32)
    assert (patch - 127.5).abs().max() < 2


def test_a_whole_level_up_equals_the_halved_photo(photos: list[np.ndarray]) -> None:
    half = halvings(photos[0], 2)[1]
    frame = square_frames(np.array([[41.0, 33.0]]), np.array([28.0]), np.array([0.3]))
    in_half = frame / 2
    in_half[..., 2] = (frame[..., 2] + 0.5) / 2 - 0.5
    torch.testing.assert_close(
        cut(photos[0], frame, coarser=1.0), cut(half, in_half), atol=1e-3, rtol=0
    )


def test_a_photo_of_one_row_has_all_its_levels() -> None:
    photos = GreyPhotos.lay([np.full((1, 9), 7, np.uint8)])
    frame = square_frames(np.array([[4.0, 0.0]]), np.array([200.0]), np.array([0.0]))
    assert (cut(photos, frame) == 7).all()


def test_colour_photos_are_refused() -> None:
    with pytest.raises(SolarError, match="grey photos"):
        GreyPhotos.lay([np.zeros((8, 8, 3), np.uint8)])
