import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solar.ranking.neighbours import largest


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(0, 4),
    columns=st.integers(0, 12),
    k=st.integers(0, 14),
    values=st.integers(1, 6),
    seed=st.integers(0, 2**16),
)
def test_the_largest_are_those_of_a_full_sort_with_ties_by_column(
    rows: int, columns: int, k: int, values: int, seed: int
) -> None:
    scores = np.random.default_rng(seed).integers(0, values, (rows, columns)).astype(np.float32)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(largest(scores, k), expected)
