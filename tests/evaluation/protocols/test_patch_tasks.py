"""The tasks against what a plain loop over pairs, points and queries says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solar.datasets.patches.hpatches import Items, Pairs
from solar.errors import SolarError
from solar.evaluation.protocols.patch_tasks import (
    Descriptors,
    match,
    retrieval,
    verification,
    verify,
)

AVERAGES = st.sampled_from(["trapezoid", "matlab"])


def average_precision(
    distances: np.ndarray, labels: np.ndarray, positives: int, average: str
) -> float:
    """From a stable sort, item by item."""
    found, total, before = 0, 0.0, 1.0
    for listed, hit in enumerate(labels[np.argsort(distances, kind="stable")], 1):
        found += int(hit)
        now = found / listed
        if hit:
            total += (before + now) / 2 if average == "trapezoid" else now
        before = now
    return total / positives


def small(seed: int, sequences: int = 3, most: int = 6, dim: int = 2) -> Descriptors:
    """Whole numbers in few dimensions: many ties, and every sum exact."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, most + 1, sequences)
    rows = rng.integers(-3, 4, (16, counts.sum(), dim)).astype(np.float32)
    names = tuple(f"v_{number}" for number in range(sequences))
    return Descriptors(names, np.concatenate([[0], np.cumsum(counts)]), rows)


def norm(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum((a.astype(np.float64) - b) ** 2))


@given(st.integers(0, 10**6), st.integers(1, 12), AVERAGES)
def test_matching_is_what_a_loop_says(seed: int, count: int, average: str) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(-3, 4, (2, count, 2)).astype(np.float32)
    apart = np.array([[norm(a, b) for b in other] for a in one])
    nearest = [int(np.flatnonzero(row == row.min())[0]) for row in apart]
    right = np.array([place == number for number, place in enumerate(nearest)])
    expected = average_precision(apart.min(1), right, count, average)
    assert match(one, other, average) == pytest.approx((expected, right.mean()))


def test_nearest_patches_that_float32_confuses_are_told_apart() -> None:
    base = np.full(128, 1000, np.float32)
    other = np.stack([base, base])
    other[0, 0] += 0.001
    assert match(other, other) == (1.0, 1.0)


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(5, 30), AVERAGES)
def test_verification_is_what_a_loop_says(seed: int, near: int, far: int, average: str) -> None:
    rng = np.random.default_rng(seed)
    positive, negative = rng.integers(0, 9, near), rng.integers(3, 12, far)
    few = positive[: max(1, int(0.2 * far))]
    area = np.mean([[p < n for p in positive] for n in negative])
    labels = np.repeat([False, True], [far, len(few)])
    expected = average_precision(np.concatenate([negative, few]), labels, len(few), average)
    found = verify(positive.astype(np.float32), negative.astype(np.float32), average)
    assert found == pytest.approx((area, expected))


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_pairs_are_compared_in_the_strips_of_their_noise(seed: int) -> None:
    data = small(seed)
    rng = np.random.default_rng(seed + 1)
    kinds = {}
    for kind in ("positive", "inter", "intra"):
        sequence = rng.integers(0, 3, (8, 2))
        row = rng.integers(0, data.counts[sequence])
        kinds[kind] = Pairs(data.names[::-1], 2 - sequence, rng.integers(0, 6, (8, 2)), row)
    found = verification(data, kinds)
    for number, noise in enumerate("eht"):
        apart = {}
        for kind, pairs in kinds.items():
            apart[kind] = []
            for (s1, s2), (t1, t2), (r1, r2) in zip(
                pairs.sequence, pairs.image, pairs.row, strict=True
            ):
                one = data.rows[t1 and 5 * number + t1, data.starts[2 - s1] + r1]
                other = data.rows[t2 and 5 * number + t2, data.starts[2 - s2] + r2]
                apart[kind].append(norm(one, other))
        for kind in ("inter", "intra"):
            expected = verify(*(np.array(apart[k], np.float32) for k in ("positive", kind)))
            assert found[noise][kind] == pytest.approx(expected)


@settings(max_examples=60)
@given(st.integers(0, 10**6), AVERAGES)
def test_retrieval_is_what_a_loop_says(seed: int, average: str) -> None:
    data = small(seed, sequences=4)
    drawn = np.random.default_rng(seed + 1).permutation(data.starts[-1])
    home = data.starts.searchsorted(drawn, "right") - 1
    row = drawn - data.starts[home]
    cut = len(drawn) // 2
    queries, distractors = (
        Items(data.names, home[p], row[p]) for p in (slice(cut), slice(cut, None))
    )
    pools = (6, 8, 500, 900)
    expected = {noise: {k: [] for k in pools} for noise in "eht"}
    most = 0
    for place, sequence in zip(drawn[:cut], home[:cut], strict=True):
        query = data.rows[0, place]
        far = [
            norm(query, data.rows[0, p])
            for p, h in zip(drawn[cut:], home[cut:], strict=True)
            if h != sequence
        ]
        most = max(most, len(far) + 5)
        for number, noise in enumerate("eht"):
            near = [norm(query, data.rows[5 * number + image, place]) for image in range(1, 6)]
            for k in pools:
                apart = np.array([*near, *far][:k])
                expected[noise][k].append(
                    average_precision(apart, np.arange(len(apart)) < 5, 5, average)
                )
    found = retrieval(data, queries, distractors, average, pools)
    for noise in "eht":
        # What 500 cannot fill, 900 cannot either; nor 500 what 8 cannot.
        assert list(found[noise]) == ([6, 8, 500] if most > 8 else [6, 8] if most > 6 else [6])
        for k, value in found[noise].items():
            assert value == pytest.approx(np.mean(expected[noise][k]))


def test_a_list_for_longer_strips_is_refused() -> None:
    data = small(0)
    items = Items(("v_1",), np.array([0]), np.array([6]))
    with pytest.raises(SolarError, match="beyond the end"):
        retrieval(data, items, items)


def test_a_list_with_an_unknown_sequence_is_refused() -> None:
    items = Items(("i_zion",), np.array([0]), np.array([0]))
    with pytest.raises(SolarError, match="i_zion"):
        retrieval(small(0), items, items)
