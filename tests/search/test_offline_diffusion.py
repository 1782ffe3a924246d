from pathlib import Path

import numpy as np
import pytest

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.search.diffuse import build_graph, diffuse
from solar.search.neighbours import exact_neighbours
from solar.search.offline_diffusion import OfflineDiffusion, build_offline, diffuse_offline


def clouds(seed: int, count: int = 80, dim: int = 6) -> Vectors:
    x = np.random.default_rng(seed).standard_normal((count, dim)) + 0.3
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def offline_of(vectors: Vectors, truncate: int = 1000) -> OfflineDiffusion:
    search = exact_neighbours(vectors)
    return build_offline(
        len(vectors), search, vectors.__getitem__, k=8, alpha=0.9, truncate=truncate, chunk=30
    )


def test_without_truncation_it_equals_diffusion_at_query_time() -> None:
    vectors, query = clouds(0), clouds(1, 1)
    search = exact_neighbours(vectors)
    graph = build_graph(len(vectors), search, vectors.__getitem__, k=8)
    rows, scores = search(query, len(vectors))
    settings = {"alpha": 0.9, "iterations": 200, "tolerance": 1e-9}
    expected = dict(zip(*diffuse(rows[0], scores[0], graph, **settings), strict=True))
    reached, sums = diffuse_offline(rows[0], scores[0], offline_of(vectors))
    assert set(reached.tolist()) == {row for row, score in expected.items() if score > 1e-7}
    np.testing.assert_allclose(sums, [expected[row] for row in reached], rtol=1e-3)
    assert (np.diff(sums) <= 0).all()


def test_a_row_is_solved_among_its_nearest_alone() -> None:
    vectors = clouds(2)
    search = exact_neighbours(vectors)
    whole, cut = offline_of(vectors), offline_of(vectors, truncate=20)
    assert cut.rows.shape == (80, 20)
    graph = build_graph(len(vectors), search, vectors.__getitem__, k=8)
    near = search(vectors[5:6], 20)[0][0]
    near = np.append(5, near[near != 5])
    alone = diffuse(near, np.eye(20, dtype=np.float32)[0], graph, seeds=1, alpha=0.9)
    np.testing.assert_array_equal(cut.rows[5], alone[0])
    np.testing.assert_allclose(cut.scores[5], alone[1], rtol=1e-5)
    assert set(cut.rows[5].tolist()) < set(whole.rows[5].tolist())


def test_equal_photos_and_missing_rows_do_no_harm() -> None:
    vectors = np.repeat(clouds(3, 10), 4, axis=0)
    offline = offline_of(vectors, truncate=6)
    assert all(own in mine for own, mine in enumerate(offline.rows.tolist()))
    rows, _ = diffuse_offline(np.array([7, -1, 7]), np.array([0.9, 0, 0.9]), offline)
    assert len(set(rows.tolist())) == len(rows) > 0
    assert diffuse_offline(np.array([-1]), np.array([0.0]), offline)[0].size == 0


def test_it_survives_a_file(tmp_path: Path) -> None:
    offline = offline_of(clouds(4), truncate=30)
    offline.save(tmp_path / "d.npy")
    opened = OfflineDiffusion.read(tmp_path / "d.npy")
    np.testing.assert_array_equal(opened.rows, offline.rows)
    np.testing.assert_array_equal(opened.scores, offline.scores)
    assert (tmp_path / "d.npy").stat().st_size < 80 * 30 * 8 + 512  # 8 bytes each


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    offline = offline_of(clouds(4), truncate=30)
    with pytest.raises(SolarError, match="Row 80 is not among the 80"):
        diffuse_offline(np.array([80]), np.array([1.0]), offline)
    with pytest.raises(SolarError, match="There is no file"):
        OfflineDiffusion.read(tmp_path / "none.npy")
    np.save(tmp_path / "other.npy", np.zeros((3, 3)))
    (tmp_path / "text.npy").write_text("no array")
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    for name in ("other", "text", "objects"):
        with pytest.raises(SolarError, match="not a precomputed diffusion"):
            OfflineDiffusion.read(tmp_path / f"{name}.npy")
    with pytest.raises(SolarError, match="k and truncate of 1 or more"):
        build_offline(3, exact_neighbours(clouds(0, 3)), clouds(0, 3).__getitem__, k=0)
