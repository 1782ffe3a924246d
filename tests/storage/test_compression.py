import faiss
import numpy as np
import pytest

from solar.storage import compression
from solar.storage.compression import CompressedCodes


@pytest.mark.parametrize("sizes", [(20,), (5, 15), (3, 8, 9)])
@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize(("queries", "count"), [(1, 6), (4, 6), (1, 30)])
def test_candidates_are_the_best_rows_of_all_parts(
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    threaded: bool,
    queries: int,
    count: int,
) -> None:
    monkeypatch.setattr(compression, "_THREADED", 0 if threaded else 1000)
    vectors = np.random.default_rng(0).standard_normal((sum(sizes), 8)).astype(np.float32)
    asked = np.random.default_rng(1).standard_normal((queries, 8)).astype(np.float32)
    parts = []
    for own in np.split(vectors, np.cumsum(sizes)[:-1]):
        parts.append(faiss.IndexFlatIP(8))
        parts[-1].add(own)
    rows = CompressedCodes(parts).candidates(asked, count)
    best = np.argsort(-(asked @ vectors.T), axis=1)[:, :count]
    assert [sorted(own) for own in rows.tolist()] == [sorted(own) for own in best.tolist()]
