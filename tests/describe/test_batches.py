from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solar.describe.pipeline import Batch, batched


def pixels(h: int, w: int) -> np.ndarray:
    return np.zeros((h, w, 3), np.uint8)


def run(sizes: list[tuple[int, int]], most: int, budget: int) -> list[Batch]:
    return list(batched(((i, pixels(*size)) for i, size in enumerate(sizes)), most, budget))


SIZES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=60)


@given(sizes=SIZES, most=st.integers(1, 5), budget=st.integers(1, 80))
def test_every_photo_leaves_once_with_photos_of_its_size(
    sizes: list[tuple[int, int]], most: int, budget: int
) -> None:
    batches = run(sizes, most, budget)
    assert sorted(key for keys, _ in batches for key in keys) == list(range(len(sizes)))
    for keys, photos in batches:
        assert {sizes[key] for key in keys} == {p.shape[:2] for p in photos}
        assert len({p.shape for p in photos}) == 1


@given(sizes=SIZES, most=st.integers(1, 5), budget=st.integers(1, 80))
def test_batches_and_what_waits_stay_within_the_budget(
    sizes: list[tuple[int, int]], most: int, budget: int
) -> None:
    come = set[int]()

    def coming() -> Iterator[tuple[int, np.ndarray]]:
        for i, size in enumerate(sizes):
            assert sum(sizes[key][0] * sizes[key][1] for key in come) <= 4 * budget
            assert len(come) <= 8 * most
            come.add(i)
            yield i, pixels(*size)

    for keys, _ in batched(coming(), most, budget):
        come -= set(keys)
        area = sum(sizes[key][0] * sizes[key][1] for key in keys)
        assert len(keys) <= most
        assert area <= budget or len(keys) == 1


@given(sizes=SIZES)
def test_batches_depend_on_the_order_alone(sizes: list[tuple[int, int]]) -> None:
    first, second = (run(sizes, 3, 50) for _ in range(2))
    assert [keys for keys, _ in first] == [keys for keys, _ in second]


def test_a_full_batch_leaves_at_once() -> None:
    sizes = iter([(4, 5), (5, 4), (4, 5), (5, 4)])
    keys, _ = next(batched(((i, pixels(*size)) for i, size in enumerate(sizes)), most=2))
    assert keys == [0, 2]
    assert list(sizes) == [(5, 4)]
