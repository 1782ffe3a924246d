"""The stages of a search."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solar.errors import SolarError
from solar.index import Index
from solar.index.search import SearchSettings
from solar.ranking.query import Part

PHOTOS = [f"{place}/{number}.jpg" for place in "abc" for number in range(4)]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    rows = np.random.default_rng(0).normal(size=(len(PHOTOS), 8)).astype(np.float32)
    rows += 2 * np.repeat(np.eye(3, 8, dtype=np.float32), 4, axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Index.create(tmp_path / "i.solar", rows, PHOTOS)


@pytest.fixture
def searched(index: Index, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How deep the vectors of the index were searched, one number per search."""
    depths, search = [], index.engine.search

    def counted(queries: Any, k: int, where: Any = ()) -> Any:
        depths.append(k)
        return search(queries, k, where)

    monkeypatch.setattr(index.engine, "search", counted)
    return depths


def paths(hits: Any) -> list[str]:
    return [hit.path for hit in hits]


def test_every_stage_has_a_ranking_and_the_last_is_that_of_search(index: Index) -> None:
    settings = SearchSettings(5, rerank="alpha,diffusion")
    stages = list(index.stages("a/0.jpg", settings))
    assert [one.stage for one in stages] == ["search", "expand", "diffusion"]
    assert [one.awaited for one in stages] == [["expand", "diffusion"], ["diffusion"], []]
    assert stages[0].hits == index.search("a/0.jpg", 5, rerank=None)
    assert stages[1].hits == index.search("a/0.jpg", 5, rerank="alpha")
    assert stages[2].hits == index.search("a/0.jpg", 5, rerank=["alpha", "diffusion"])


def test_only_stages_that_are_looked_at_are_searched_for(index: Index, searched: list[int]) -> None:
    first, *_ = index.stages("a/0.jpg", SearchSettings(5, rerank="dba"))
    again = len(searched)
    assert len(first.hits) == 5
    assert len(searched) == again  # the method had looked deeper already
    index.search("a/0.jpg", 5, rerank=None)
    assert len(searched) == again + 1


def test_many_queries_are_compared_at_once(index: Index, searched: list[int]) -> None:
    queries = ["a/0.jpg", "b/1.jpg", index.describe("c/2.jpg")]
    found = index.search_many(queries, 3, where="path=a/")
    assert searched == [4]
    assert found == [index.search(query, 3, rerank=None, where="path=a/") for query in queries]
    every = index.search_many(queries, 12, min_probability=None, include_self=True)
    assert [len(hits) for hits in every] == [12, 12, 12]
    assert index.search_many([]) == []
    assert index.search_many(queries[:1], 3, rerank="dba") == [
        index.search("a/0.jpg", 3, rerank="dba")
    ]


def test_filters_by_path_and_score(index: Index, searched: list[int]) -> None:
    odd = SearchSettings(4, rerank=None, only=lambda path: path[2] in "13", include_self=True)
    [ranking] = index.stages("c/0.jpg", odd)
    every = index.search("c/0.jpg", 12, rerank=None, include_self=True)
    assert paths(ranking.hits) == [path for path in paths(every) if path[2] in "13"][:4]
    assert searched == [12, 4, 16]
    least = every[2].score
    [ranking] = index.stages("c/0.jpg", SearchSettings(12, rerank=None, min_score=least))
    assert ranking.hits == every[1:3]
    judged = SearchSettings(12, rerank=None, like=["c/0.jpg"], only=lambda path: path != "c/0.jpg")
    assert "c/0.jpg" not in paths(next(index.stages("c/1.jpg", judged)).hits)


def test_a_method_that_fails_is_an_error_unless_it_may_be_left_out(index: Index) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    with pytest.raises(SolarError, match="photos="):
        index.search("a/0.jpg", rerank="dba,verify")
    settings = SearchSettings(rerank="dba,verify", lenient=True)
    *_, last = index.stages("a/0.jpg", settings)
    assert last.stage == "verify"
    assert last.hits == index.search("a/0.jpg", rerank="dba")


def test_a_photo_is_left_out_by_the_path_it_is_known_to_have(index: Index) -> None:
    vector = index.describe("b/0.jpg")
    found = index.search(Part(vector, path="b/0.jpg"), 12)
    assert sorted(paths(found)) == [path for path in PHOTOS if path != "b/0.jpg"]
    assert len(index.search(Part(vector, path="unknown.jpg"), 12)) == 12


@pytest.mark.parametrize("k", ["5", 0, -1, 2.5, None])
def test_a_number_of_results_that_is_none_is_one_sentence(index: Index, k: Any) -> None:
    with pytest.raises(SolarError, match=rf"\bk\b.*{k}"):
        index.search("a/0.jpg", k)
    with pytest.raises(SolarError, match=rf"\bk\b.*{k}"):
        index.search_vectors(np.eye(1, 8), k)


def test_numbers_of_numpy_are_numbers(index: Index) -> None:
    assert len(index.search("a/0.jpg", np.int64(3), rerank=None)) == 3
