import numpy as np
import pytest
import torch

from solar.datasets.patches.photo_points import PhotoPoints
from solar.demo import toy
from solar.errors import SolarError
from solar.local.patch_cutting import cut, square_frames
from solar.training.patches.sources import PatchSet, PointPatches, _turned, joined
from solar.training.patches.views import Views

SAME = Views(
    first=("none",), second=("none",), coarser=0, blur=0, gamma=0, gain=0, bias=0, shadow=0,
    noise=0, jpeg=0,
)  # fmt: skip


def photo_points(photos: int = 4, points: int = 12) -> PhotoPoints:
    rng = np.random.default_rng(0)
    greys = [np.asarray(toy.landmark(i, 0, size=(96, 72)).convert("L")) for i in range(photos)]
    tables = [
        np.column_stack(
            [rng.uniform(25, 70, points), rng.uniform(25, 45, points), np.full(points, 24.0),
             rng.uniform(0, 6, points)]
        ).astype(np.float32)
        for _ in range(photos)
    ]  # fmt: skip
    return PhotoPoints(tuple("abcdefgh"[:photos]), tuple(greys), tuple(tables))


def source(views: Views, **changes: object) -> PointPatches:
    settings = {"points": 8, "per_photo": 4, "seed": 0, **changes}
    return PointPatches(photo_points(), views, **settings)  # type: ignore[arg-type]


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    one, other = source(Views()), source(Views())
    other.batch(0)
    assert torch.equal(one.batch(3), other.batch(3))
    assert not torch.equal(one.batch(3), one.batch(4))
    assert not torch.equal(one.batch(3), source(Views(), seed=1).batch(3))


def test_without_any_change_both_patches_are_the_one_at_the_keypoint() -> None:
    found, batch = photo_points(), source(SAME).batch(0)
    assert batch.shape == (2, 8, 1, 32, 32)
    assert torch.equal(batch[0], batch[1])
    every = torch.cat(
        [
            cut(photo, square_frames(table[:, :2], table[:, 2], table[:, 3]))
            for photo, table in zip(found.photos, found.points, strict=True)
        ]
    )
    apart = (batch[0][:, None] - every).abs().amax((2, 3, 4))
    assert (apart.min(1).values <= 0.51).all()  # rounded to whole grey levels
    assert len(set(apart.argmin(1).tolist())) == 8


def test_an_epoch_shows_each_photo_once() -> None:
    patches = source(SAME)
    assert patches.batches == 2
    drawn = [patches._draw(step, torch.Generator().manual_seed(0))[0] for step in (0, 1)]
    assert sorted(torch.cat(drawn).tolist()) == sorted([0, 1, 2, 3] * 4)


def test_turned_pairs_are_turned_alike() -> None:
    from dataclasses import replace

    batch = source(replace(SAME, turn=True)).batch(0)
    assert torch.equal(batch[0], batch[1])
    assert not torch.equal(batch, source(SAME).batch(0))


def test_too_few_photos_for_a_batch_are_refused() -> None:
    with pytest.raises(SolarError, match=r"10 photos with 4 keypoints.* 4"):
        source(Views(), points=40)


def test_a_point_is_found_again_in_another_photo_of_its_sequence() -> None:
    scene = np.asarray(toy.landmark(1, 0, size=(160, 120)).convert("L"))
    shift = (20, 10)
    views = (scene[:100, :130].copy(), scene[shift[1] : 110, shift[0] : 150].copy())
    points = np.array([[x, y, 24, 0.5] for x in (40, 60, 80, 100) for y in (40, 60)], np.float32)
    moved = points - np.array([*shift, 0, 0], np.float32)
    there = np.array([[1, 0, -shift[0]], [0, 1, -shift[1]], [0, 0, 1]], np.float64)
    maps = np.stack([np.stack([np.eye(3), there]), np.stack([np.linalg.inv(there), np.eye(3)])])
    patches = PointPatches(
        PhotoPoints(("a", "b"), views, (points, moved)), SAME, points=16, per_photo=8, seed=0,
        neighbours=(np.array([[0, 1], [0, 1]]), maps),
    )  # fmt: skip
    numbers, frames = patches._draw(0, torch.Generator().manual_seed(0))
    others, _ = patches._carry(numbers, frames, torch.Generator().manual_seed(0))
    assert (others != numbers).all()
    left, right = patches.batch(0)
    assert (left - right).abs().max() <= 1


def test_a_point_that_no_other_photo_shows_is_paired_with_itself() -> None:
    found = photo_points(photos=2)
    away = np.array([[1, 0, 500], [0, 1, 0], [0, 0, 1]], np.float64)
    maps = np.stack([np.stack([np.eye(3), away]), np.stack([np.linalg.inv(away), np.eye(3)])])
    patches = PointPatches(
        found, SAME, points=16, per_photo=8, seed=0,
        neighbours=(np.array([[0, 1], [0, 1]]), maps),
    )  # fmt: skip
    numbers, frames = patches._draw(0, torch.Generator().manual_seed(0))
    others, _ = patches._carry(numbers, frames, torch.Generator().manual_seed(0))
    assert torch.equal(others, numbers)


def numbered_set(counts: list[int], **changes: object) -> PatchSet:
    """Patches that show their own number in every pixel."""
    labels = np.repeat(np.arange(len(counts)), counts)
    patches = np.tile(np.arange(len(labels), dtype=np.uint8)[:, None, None], (1, 32, 32))
    order = np.random.default_rng(5).permutation(len(labels))
    settings = {"points": 3, "seed": 2, "turn": False, **changes}
    return PatchSet(patches[order], labels[order], **settings)  # type: ignore[arg-type]


def test_a_pair_is_two_patches_of_one_point_and_no_point_comes_twice() -> None:
    counts = [2, 3, 5, 4, 2, 6]
    labels = np.repeat(np.arange(6), counts)
    patches = numbered_set(counts)
    for step in range(8):
        left, right = patches.batch(step)[:, :, 0, 0, 0].long().numpy()
        assert (left != right).all()
        assert (labels[left] == labels[right]).all()
        assert len(set(labels[left])) == 3


def test_patches_of_a_point_are_used_up_before_any_comes_again() -> None:
    patches = numbered_set([6, 6, 6], points=3)
    for first in (0, 3, 6):  # three pairs of six patches make a round
        seen = torch.cat([patches.batch(first + i)[:, :, 0, 0, 0].flatten() for i in range(3)])
        assert sorted(seen.long().tolist()) == list(range(18))


def test_points_with_one_patch_are_left_out_and_too_few_are_refused() -> None:
    with pytest.raises(SolarError, match="there are 2"):
        numbered_set([2, 1, 3])


def test_quarter_turns_and_mirror_images_are_the_pairs() -> None:
    pairs = torch.rand(1, 64, 1, 32, 32).repeat(2, 1, 1, 1, 1)
    turned = _turned(pairs, torch.Generator().manual_seed(0))
    assert torch.equal(turned[0], turned[1])
    kinds = set()
    for before, after in zip(pairs[0], turned[0], strict=True):
        options = [before.rot90(k, (1, 2)) for k in range(4)]
        options += [option.flip(1) for option in options]
        [kind] = [n for n, option in enumerate(options) if torch.equal(option, after)]
        kinds.add(kind)
    assert len(kinds) == 8


def test_joined_sets_share_no_label() -> None:
    part = (np.zeros((3, 32, 32), np.uint8), np.array([0, 0, 4]))
    _, labels = joined([part, part])
    assert labels.tolist() == [0, 0, 4, 5, 5, 9]
