import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solar.describe.pipeline import Batch, Batcher


def pixels(h: int, w: int) -> np.ndarray:
    return np.zeros((h, w, 3), np.uint8)


def run(batcher: Batcher[int], sizes: list[tuple[int, int]]) -> list[Batch[int]]:
    full = [b for i, size in enumerate(sizes) for b in batcher.add(i, pixels(*size))]
    return full + list(batcher.flush())


SIZES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=60)


@given(sizes=SIZES, most=st.integers(1, 5), budget=st.integers(1, 80))
def test_every_photo_leaves_once_with_photos_of_its_size(
    sizes: list[tuple[int, int]], most: int, budget: int
) -> None:
    batches = run(Batcher(most, budget), sizes)
    assert sorted(key for batch in batches for key in batch.keys) == list(range(len(sizes)))
    for batch in batches:
        assert {sizes[key] for key in batch.keys} == {p.shape[:2] for p in batch.pixels}
        assert len({p.shape for p in batch.pixels}) == 1


@given(sizes=SIZES, most=st.integers(1, 5), budget=st.integers(1, 80))
def test_batches_and_what_waits_stay_within_the_budget(
    sizes: list[tuple[int, int]], most: int, budget: int
) -> None:
    batcher, waiting = Batcher[int](most, budget), 0
    for i, (h, w) in enumerate(sizes):
        waiting += h * w
        for batch in batcher.add(i, pixels(h, w)):
            area = sum(p.shape[0] * p.shape[1] for p in batch.pixels)
            waiting -= area
            assert len(batch.keys) <= most
            assert area <= budget or len(batch.keys) == 1
        assert waiting <= 4 * budget
        assert sum(len(b.keys) for b in batcher._waiting.values()) <= 8 * most


@given(sizes=SIZES)
def test_batches_depend_on_the_order_alone(sizes: list[tuple[int, int]]) -> None:
    first, second = (run(Batcher(3, 50), sizes) for _ in range(2))
    assert [batch.keys for batch in first] == [batch.keys for batch in second]


def test_a_full_batch_leaves_at_once() -> None:
    batcher = Batcher[int](most=2)
    assert list(batcher.add(0, pixels(4, 5))) == []
    assert list(batcher.add(1, pixels(5, 4))) == []
    [batch] = batcher.add(2, pixels(4, 5))
    assert batch.keys == [0, 2]
