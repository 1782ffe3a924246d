from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from solar.arrays import Pixels
from solar.images import Roots
from solar.index.embeddings import DescribedCollection
from solar.near_duplicates import candidates as module
from solar.near_duplicates.candidates import candidates, reading_order
from solar.near_duplicates.crop_fit import are_parts
from solar.near_duplicates.small_pictures import SmallPictures, small_pictures

PHOTOS = 14
Collection = tuple[DescribedCollection, SmallPictures]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Twelve photos that are alike, one that is a little like all of them, and a part of it."""
    folder, random = tmp_path_factory.mktemp("candidates"), np.random.default_rng(0)
    names = tuple(f"{number:02}.png" for number in range(PHOTOS))
    for name in names[:-1]:
        noise = Image.fromarray(random.integers(0, 255, (8, 8, 3), np.uint8))
        noise.resize((96, 96), Image.Resampling.BICUBIC).save(folder / name)
    Image.open(folder / names[-2]).crop((9, 9, 84, 84)).save(folder / names[-1])
    rows = np.eye(PHOTOS, 16, dtype=np.float32) * 0.1
    rows[:, 15] = 1
    rows[12] = [*[0.0] * 12, 1, 0, 0, 1.5]
    rows[13] = np.eye(16)[13]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = DescribedCollection(names, rows, "x", Roots.at(folder), folder)
    return found, small_pictures(names, found.roots.find, folder)


def test_new_photos_have_the_places_of_a_full_run(collection: Collection, tmp_path: Path) -> None:
    """An old photo has nearer ones that nobody asks about."""
    full, new = (
        candidates(*collection, np.array(asked), tmp_path, k=12, place_score=0.7)
        for asked in (range(PHOTOS), [12])
    )
    of_new = full["place"] & ((full["a"] == 12) | (full["b"] == 12))
    assert full["place"].any()
    rows = ["a", "b"]
    assert sorted(new[rows][new["place"]].tolist()) == sorted(full[rows][of_new].tolist())


def test_pairs_of_one_photo_are_read_close_together() -> None:
    """A path through 40 photos, whose rows say nothing of where in it they are."""
    photos = np.random.default_rng(0).permutation(40)
    pairs = np.sort(np.stack([photos[:-1], photos[1:]], axis=1), axis=1)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    order = reading_order(pairs)
    assert sorted(order.tolist()) == list(range(39))
    places = [np.flatnonzero((pairs[order] == row).any(axis=1)) for row in range(40)]
    far = [row for row, place in enumerate(places) if np.ptp(place) > 2]
    assert len(far) <= 1  # where the walk goes on when it has come to one end
    assert reading_order(np.empty((0, 2), np.int64)).tolist() == []


def test_windows_are_fitted_a_few_at_a_time(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> bytes:
        return candidates(
            *collection, np.arange(PHOTOS), tmp_path, k=13, place_score=None
        ).tobytes()

    sizes = list[int]()

    def counted(wholes: Pixels, *rest: Any) -> npt.NDArray[np.bool_]:
        sizes.append(len(wholes))
        return are_parts(wholes, *rest)

    monkeypatch.setattr(module, "PART", -1.0)  # all are worth a look
    expected = found()
    monkeypatch.setattr(module, "_FITTED", 5)
    monkeypatch.setattr(module, "are_parts", counted)
    assert found() == expected
    assert max(sizes) == 5
    assert sum(sizes) == PHOTOS * (PHOTOS - 1)
