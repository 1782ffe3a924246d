import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.unit_rows import unit_rows
from torch import Tensor

from solar.errors import SolarError
from solar.training.retrieval.hard_negatives import Draw, draw_epoch, mine


def small_integers(seed: int, *shape: int) -> Tensor:
    """Descriptors whose products are exact in float32, with many ties among them."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=generator) / 4


def one_by_one(
    similarity: Tensor,
    own: int,
    landmarks: list[int],
    count: int,
    too_near: list[bool],
) -> list[int]:
    """Walk down one query's ranking in plain Python; equal photos in the pool's order."""
    photos = range(len(landmarks))
    wanted = sorted((p for p in photos if not too_near[p]), key=lambda p: (-similarity[p], p))
    spare = sorted((p for p in photos if too_near[p]), key=lambda p: (similarity[p], p))
    taken: list[int] = []
    for photo in wanted + spare:
        if landmarks[photo] not in {own, *(landmarks[t] for t in taken)}:
            taken.append(photo)
    return taken[:count]


problems = {
    "q": st.integers(1, 5),
    "landmarks": st.lists(st.integers(0, 7), min_size=8, max_size=30).filter(
        lambda x: len(set(x)) > 3
    ),
    "seed": st.integers(0, 999),
    "min_distance": st.sampled_from([0.0, 1.2, 1.4, 1.5]),
    "semi_hard": st.booleans(),
    "chunk": st.integers(1, 6),
}


@settings(max_examples=60, deadline=None)
@given(**problems)
def test_agrees_with_a_walk_photo_by_photo(
    q: int, landmarks: list[int], seed: int, min_distance: float, semi_hard: bool, chunk: int
) -> None:
    queries, positives = small_integers(seed, q, 4), small_integers(seed + 1, q, 4)
    pool = small_integers(seed + 2, len(landmarks), 4)
    own = torch.arange(q) % 8
    mined = mine(
        queries,
        own,
        pool,
        torch.tensor(landmarks),
        negatives=3,
        style="semi-hard" if semi_hard else "hardest",
        positives=positives,
        min_distance=min_distance,
        chunk=chunk,
    )
    for i in range(q):
        similarity = pool @ queries[i]
        near = (
            similarity > 1 - min_distance**2 / 2 if min_distance else torch.zeros(len(pool)).bool()
        )
        if semi_hard:
            near |= similarity >= queries[i] @ positives[i]
        expected = one_by_one(similarity, i % 8, landmarks, 3, near.tolist())
        assert mined[i].tolist() == expected


@pytest.mark.parametrize("style", ["hardest", "semi-hard", "random"])
def test_no_own_landmark_and_none_twice(style: str) -> None:
    own, landmarks = torch.arange(20) % 9, torch.arange(200) % 9
    mined = mine(
        unit_rows(0, 20, 8),
        own,
        unit_rows(1, 200, 8),
        landmarks,
        negatives=8,
        style=style,
        positives=unit_rows(2, 20, 8),
        generator=torch.Generator().manual_seed(0),
    )
    for i in range(20):
        assert set(landmarks[mined[i]].tolist()) == set(range(9)) - {i % 9}


@pytest.mark.parametrize("style", ["hardest", "semi-hard", "random"])
def test_chunks_and_repetition_change_nothing(style: str) -> None:
    def mined(chunk: int) -> Tensor:
        return mine(
            small_integers(0, 23, 6),
            torch.arange(23),
            small_integers(1, 300, 6),
            torch.arange(300) % 40,
            style=style,
            positives=small_integers(2, 23, 6),
            generator=torch.Generator().manual_seed(7),
            chunk=chunk,
        )

    first = mined(256)
    assert first.dtype == torch.int64
    assert first.shape == (23, 5)
    assert torch.equal(first, mined(256))
    assert torch.equal(first, mined(4))


def test_random_negatives_depend_on_the_generator_only() -> None:
    def mined(seed: int, descriptors: int) -> Tensor:
        return mine(
            unit_rows(descriptors, 10, 4),
            torch.arange(10),
            unit_rows(descriptors + 1, 100, 4),
            torch.arange(100),
            style="random",
            generator=torch.Generator().manual_seed(seed),
        )

    assert torch.equal(mined(0, 0), mined(0, 5))
    assert not torch.equal(mined(0, 0), mined(1, 0))


def test_random_negatives_come_from_the_whole_pool() -> None:
    mined = mine(
        unit_rows(0, 400, 4),
        torch.full((400,), -1),
        unit_rows(1, 50, 4),
        torch.arange(50),
        style="random",
        generator=torch.Generator().manual_seed(0),
    )
    counts = mined.flatten().bincount(minlength=50)
    assert counts.min() >= 10  # 40 expected of each
    assert counts.max() <= 80


def test_min_distance_skips_photos_that_are_too_near() -> None:
    angles = torch.tensor([0.01, 0.1, 0.5, 1.0, 1.5])
    pool = torch.stack((angles.cos(), angles.sin()), 1)
    query = torch.tensor([[1.0, 0.0]])
    landmarks = torch.arange(1, 6)
    near = mine(query, torch.tensor([0]), pool, landmarks, negatives=2)
    far = mine(query, torch.tensor([0]), pool, landmarks, negatives=2, min_distance=0.3)
    assert near.tolist() == [[0, 1]]
    assert far.tolist() == [[2, 3]]


def test_too_few_beyond_the_min_distance_are_filled_with_the_farthest_before_it() -> None:
    angles = torch.tensor([0.01, 0.1, 0.2, 1.0])
    pool = torch.stack((angles.cos(), angles.sin()), 1)
    query = torch.tensor([[1.0, 0.0]])
    options = {"negatives": 3, "min_distance": 0.3}
    mined = mine(query, torch.tensor([0]), pool, torch.arange(1, 5), **options)
    assert mined.tolist() == [[3, 2, 1]]


def test_random_negatives_keep_the_min_distance_too() -> None:
    queries, pool = unit_rows(0, 20, 3), unit_rows(1, 100, 3)
    landmarks = torch.arange(20), torch.arange(20, 120)
    mined = mine(queries, landmarks[0], pool, landmarks[1], style="random", min_distance=1.2)
    assert (pool[mined] - queries[:, None]).norm(dim=2).min() >= 1.2


def test_semi_hard_begins_behind_the_positive() -> None:
    angles = torch.tensor([0.1, 0.3, 0.5, 0.7, 1.2])
    pool = torch.stack((angles.cos(), angles.sin()), 1)
    positive = torch.tensor([[np.cos(0.4), np.sin(0.4)]], dtype=torch.float32)
    mined = mine(
        torch.tensor([[1.0, 0.0]]),
        torch.tensor([0]),
        pool,
        torch.arange(1, 6),
        negatives=2,
        style="semi-hard",
        positives=positive,
    )
    assert mined.tolist() == [[2, 3]]


def test_half_precision_descriptors_are_compared_in_float32() -> None:
    queries, pool = unit_rows(0, 8, 16).bfloat16(), unit_rows(1, 100, 16).bfloat16()
    landmarks = torch.arange(8), torch.arange(100)
    expected = mine(queries.float(), landmarks[0], pool.float(), landmarks[1])
    assert torch.equal(mine(queries, landmarks[0], pool, landmarks[1]), expected)


def test_autocast_changes_nothing() -> None:
    problem = unit_rows(0, 8, 16), torch.arange(8), unit_rows(1, 300, 16), torch.arange(300)
    with torch.autocast("cpu", torch.bfloat16):
        inside = mine(*problem)
    assert torch.equal(inside, mine(*problem))


def test_no_gradient_is_kept() -> None:
    queries = unit_rows(0, 2, 4).requires_grad_()
    mined = mine(queries, torch.arange(2), unit_rows(1, 9, 4), torch.arange(9))
    assert not mined.requires_grad


def test_too_few_landmarks_are_told() -> None:
    queries, pool = unit_rows(0, 2, 4), unit_rows(1, 50, 4)
    with pytest.raises(SolarError, match=r"4 other landmarks.* 5 negatives"):
        mine(queries, torch.tensor([99, 3]), pool, torch.arange(50) % 5)
    # Without a query of these landmarks five are enough.
    assert mine(queries, torch.tensor([99, 98]), pool, torch.arange(50) % 5).shape == (2, 5)


def test_descriptors_that_are_not_numbers_are_told() -> None:
    queries = torch.full((2, 4), torch.nan)
    with pytest.raises(SolarError, match="not finite"):
        mine(queries, torch.arange(2), unit_rows(1, 50, 4), torch.arange(50))


def drawn(seed: int, query_count: int = 2000, pool_size: int = 20_000) -> Draw:
    queries = np.arange(100, 160)
    positives = [np.array([q + 1000, q + 2000, q + 3000][: 1 + q % 3]) for q in queries]
    generator = torch.Generator().manual_seed(seed)
    return draw_epoch(
        queries, positives, 5000, query_count=query_count, pool_size=pool_size, generator=generator
    )


def test_epoch_draws_distinct_queries_and_photos() -> None:
    draw = drawn(0, query_count=40, pool_size=700)
    assert len(set(draw.queries.tolist())) == 40
    assert set(draw.queries.tolist()) <= set(range(100, 160))
    assert len(set(draw.pool.tolist())) == 700
    assert set(draw.pool.tolist()) <= set(range(5000))


def test_epoch_draws_each_positive_of_its_query_now_and_then() -> None:
    seen: dict[int, set[int]] = {}
    for seed in range(30):
        draw = drawn(seed, query_count=60, pool_size=1)
        for query, positive in zip(draw.queries.tolist(), draw.positives.tolist(), strict=True):
            seen.setdefault(query, set()).add(positive)
    for query, found in seen.items():
        assert found == {query + 1000, query + 2000, query + 3000} - {
            query + 1000 * extra for extra in range(2 + query % 3, 4)
        }


def test_epoch_is_the_published_one_of_its_seed() -> None:
    """There, all generators get the epoch's number: torch's draws photos, Python's positives."""
    queries = np.arange(100, 160)
    positives = [[q + 1000, q + 2000, q + 3000][: 1 + q % 3] for q in queries.tolist()]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        chosen = torch.randperm(60)[:40].tolist()
        pool = torch.randperm(5000)[:700]
    dice = random.Random(5)
    drawn_there = [dice.sample(positives[i], 1)[0] for i in chosen]
    draw = drawn(5, query_count=40, pool_size=700)
    assert draw.queries.tolist() == queries[chosen].tolist()
    assert draw.positives.tolist() == drawn_there
    assert torch.equal(draw.pool, pool)


def test_epoch_depends_on_the_generator_only() -> None:
    assert all(torch.equal(a, b) for a, b in zip(drawn(3), drawn(3), strict=True))
    assert not torch.equal(drawn(3).queries, drawn(4).queries)


def test_epoch_takes_all_where_fewer_exist() -> None:
    draw = drawn(0)
    assert sorted(draw.queries.tolist()) == list(range(100, 160))
    assert sorted(draw.pool.tolist()) == list(range(5000))


def test_tuples_are_photos() -> None:
    draw = Draw(torch.tensor([5, 6]), torch.tensor([7, 8]), torch.tensor([10, 20, 30]))
    mined = torch.tensor([[2, 0], [1, 2]])
    assert draw.tuples(mined).tolist() == [[5, 7, 30, 10], [6, 8, 20, 30]]
