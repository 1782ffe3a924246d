import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solar.albums.groups import supported_groups

FIRST, SECOND = range(10), range(10, 20)


def clique(rows: range) -> list[tuple[int, int]]:
    return [(a, b) for a in rows for b in rows if a < b]


def found(pairs: list[tuple[int, int]], strengths: list[float], share: float) -> list[list[int]]:
    return supported_groups(np.array(pairs, np.int64).reshape(-1, 2), strengths, share)


def test_a_single_wrong_match_joins_no_two_albums() -> None:
    pairs = [*clique(FIRST), *clique(SECOND), (3, 13)]
    strengths = [50.0] * 90 + [90.0]  # and be it the strongest of all
    assert found(pairs, strengths, 0) == [[*FIRST, *SECOND]]
    assert found(pairs, strengths, 0.5) == [[*FIRST], [*SECOND]]


def test_enough_matches_join_two_sides_of_a_place() -> None:
    pairs = [*clique(FIRST), *clique(SECOND)]
    across = [(row, 10 + row) for row in range(3)]
    assert len(found([*pairs, *across[:2]], [9.0] * 92, 0.5)) == 2
    assert len(found([*pairs, *across], [9.0] * 93, 0.5)) == 1
    # One photo that shows both places is no bridge, whichever side it is on.
    for hub in ([(0, row) for row in SECOND], [(row, 10) for row in FIRST]):
        assert len(found([*pairs, *hub], [9.0] * 100, 0.5)) == 2


def test_a_chain_of_matches_is_cut_and_a_photo_alone_needs_one() -> None:
    albums = [range(start, start + 10) for start in range(0, 50, 10)]
    pairs = [pair for album in albums for pair in clique(album)]
    chain = [(9, 10), (19, 20), (29, 30), (39, 40)]
    strengths = [50.0] * len(pairs) + [13.0] * 4 + [12.0]
    assert found([*pairs, *chain, (0, 99)], strengths, 0.5) == [
        [*albums[0], 99],
        *([*album] for album in albums[1:]),
    ]


@given(
    st.sets(st.tuples(st.integers(0, 14), st.integers(0, 14)).filter(lambda p: p[0] < p[1])),
    st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_groups_are_parts_of_connected_components(pairs: set[tuple[int, int]], seed: int) -> None:
    listed = sorted(pairs)
    strengths = np.random.default_rng(seed).random(len(listed)).tolist()
    whole = found(listed, strengths, 0)
    assert whole == _components(listed)
    for rows in found(listed, strengths, 0.5):
        assert any(set(rows) <= set(one) for one in whole)
        assert all(any(set(pair) <= set(rows) and row in pair for pair in listed) for row in rows)


def _components(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """By walking, the slow way."""
    left, found_ones = {row for pair in pairs for row in pair}, []
    while left:
        reached, before = {min(left)}, -1
        while len(reached) != before:
            before = len(reached)
            reached |= {row for pair in pairs if reached & set(pair) for row in pair}
        found_ones.append(sorted(reached))
        left -= reached
    return found_ones
