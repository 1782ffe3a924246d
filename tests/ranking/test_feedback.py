from pathlib import Path

import numpy as np
import pytest

from solar.arrays import Vectors
from solar.demo import toy
from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.ranking.feedback import UNLIKE, arranged, updated
from solar.ranking.query import Part
from solar.storage.types import DescriptorSpec, Hit, Photo

NONE = np.zeros((0, 8), np.float32)


def unit_rows(count: int, seed: int, dim: int = 8) -> Vectors:
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    photos = [Photo(f"{number}.jpg", tags=("odd",) * (number % 2)) for number in range(12)]
    return Index.create(tmp_path / "photos.solar", unit_rows(12, 0), photos)


def paths(hits: list[Hit]) -> list[str]:
    return [hit.path for hit in hits]


def test_the_query_moves_as_the_formula_says() -> None:
    query, liked, unliked = unit_rows(1, 1)[0], unit_rows(3, 2), unit_rows(2, 3)
    total = 0.4 * query + 0.6 * liked.sum(0) / 3 - 0.3 * unliked.sum(0) / 2
    expected = total / np.sqrt((total**2).sum())
    np.testing.assert_allclose(updated(query, liked, unliked, 0.6, 0.3), expected, atol=1e-6)


def test_nothing_judged_leaves_the_query() -> None:
    query = unit_rows(1, 1)[0]
    np.testing.assert_allclose(updated(query, NONE, NONE), query, atol=1e-7)


def test_one_side_may_be_empty() -> None:
    query, others = unit_rows(1, 1)[0], unit_rows(2, 2)
    nearer, farther = updated(query, others, NONE), updated(query, NONE, others)
    assert (others @ nearer).mean() > (others @ query).mean() > (others @ farther).mean()
    total = query - UNLIKE * others.mean(0)  # the query itself counts in full
    np.testing.assert_allclose(farther, total / np.linalg.norm(total), atol=1e-6)


def test_a_query_that_is_crossed_out_does_not_vanish() -> None:
    query = unit_rows(1, 1)[0]
    cancelled = updated(query, NONE, query[None], unlike=1)
    np.testing.assert_array_equal(cancelled, query)


def test_ticked_come_first_and_crossed_last() -> None:
    found = [Hit("c", 0.9), Hit("d", 0.2)]
    ticked, crossed = [Hit("a", 0.1), Hit("b", 0.5)], [Hit("e", 0.7)]
    assert paths(arranged(ticked, found, crossed, 9)) == ["b", "a", "c", "d", "e"]
    assert paths(arranged(ticked, found, crossed, 3)) == ["b", "a", "c"]


def test_a_search_is_for_the_changed_query(index: Index) -> None:
    query = unit_rows(1, 5)[0]
    stored = {path: index.describe(path) for path in ("3.jpg", "4.jpg", "7.jpg")}
    changed = updated(query, np.array([stored["3.jpg"], stored["4.jpg"]]), stored["7.jpg"][None])
    plain = [hit for hit in index.search(changed, 12) if hit.path not in stored]
    hits = index.search_like(query, 12, like=["3.jpg", "4.jpg"], unlike=["7.jpg"])
    assert {hits[0].path, hits[1].path} == {"3.jpg", "4.jpg"}
    assert hits[0].score >= hits[1].score
    assert hits[-1].path == "7.jpg"
    assert paths(hits[2:-1]) == paths(plain)
    np.testing.assert_allclose(
        [hit.score for hit in hits[2:-1]], [hit.score for hit in plain], atol=1e-6
    )
    alone = index.search_like(query, 5, like="3.jpg")
    assert alone == index.search_like(query, 5, like=["3.jpg"])
    assert index.search_like(query, 5, like=["3.jpg", "4.jpg"], unlike=["7.jpg"]) == hits[:5]


def test_without_judgements_it_is_a_plain_search(index: Index) -> None:
    assert index.search_like("2.jpg", 12) == index.search("2.jpg", 12)
    assert len(index.search_like("2.jpg", 12, include_self=True)) == 12
    several = ["2.jpg", Part("3.jpg")]
    assert index.search_like(several, 4) == index.search_mean(several, 4)


def test_a_judged_photo_may_be_a_vector_that_is_not_indexed(index: Index) -> None:
    query, other = unit_rows(2, 5)
    hits = index.search_like(query, 12, like=[other])
    assert paths(hits) == paths(index.search(updated(query, other[None], NONE), 12))


def test_conditions_hold_for_judged_photos_too(index: Index) -> None:
    judged = {"like": ["3.jpg", "4.jpg"], "unlike": ["7.jpg", "8.jpg"]}
    hits = paths(index.search_like("0.jpg", 12, where="tag=odd", **judged))
    assert (hits[0], hits[-1]) == ("3.jpg", "7.jpg")
    assert set(hits) == {"1.jpg", "3.jpg", "5.jpg", "7.jpg", "9.jpg", "11.jpg"}


def test_re_ranking_follows_and_leaves_judged_photos_where_they_are(index: Index) -> None:
    judged = {"like": ["3.jpg"], "unlike": ["7.jpg"]}
    plain = index.search_like("0.jpg", 12, **judged)
    ranked = index.search_like("0.jpg", 12, rerank="diffusion", **judged)
    assert (ranked[0], ranked[-1]) == (plain[0], plain[-1])
    assert set(paths(ranked)) == set(paths(plain))
    assert paths(ranked) != paths(plain)


def test_right_and_wrong_at_once_is_one_sentence(index: Index) -> None:
    with pytest.raises(SolarError, match=r"^3\.jpg is in both like and unlike"):
        index.search_like("0.jpg", like=["3.jpg"], unlike=["name:3.jpg"])


def test_verification_looks_at_the_query_that_was_asked(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=2, views=3, size=(160, 120))
    names = [f"landmark-00{place}/view-00{view}.jpg" for place in range(2) for view in range(3)]
    roots, spec = Roots.at(tmp_path / "photos"), DescriptorSpec(8)
    index = Index.create(tmp_path / "a.solar", unit_rows(6, 0), names, spec=spec, roots=roots)
    hits = index.search_like(names[0], 6, like=[names[4]], unlike=[names[5]], rerank="verify")
    assert [hit.inliers is None for hit in hits] == [True, False, False, False, True]
    assert {hit.path for hit in hits[1:3]} == set(names[1:3])
