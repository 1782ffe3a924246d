from pathlib import Path

import numpy as np
import pytest

from solar.index import Index
from solar.ranking.background import TYPICAL, Surroundings


@pytest.mark.parametrize("first", ["alike", "different"])
def test_neighbours_are_looked_at_all_over_the_collection(tmp_path: Path, first: str) -> None:
    """Half of the photos show one place; the upper quartile of the others' neighbours says so."""
    different = np.eye(TYPICAL + 1, dtype=np.float32)
    alike = np.repeat(different[-1:], TYPICAL, axis=0)
    halves = [alike, different[:-1]]
    vectors = np.concatenate(halves if first == "alike" else halves[::-1])
    names = [f"{number}.jpg" for number in range(len(vectors))]
    with Index.create(tmp_path / "photos.solar", vectors, names) as index:
        engine = index.engine
        around = Surroundings(
            engine, {}, lambda photo: True, lambda rows, k: engine.search(np.array(rows), k)
        )
        [best] = engine.search(vectors[:1], 8)
        found = around.background(vectors[0], best)
    assert found is not None
    own = 1.0 if first == "alike" else 0.0
    assert found.near == pytest.approx((own, own, own, 1.0, 1.0, 1.0))
