from hypothesis import given
from hypothesis import strategies as st

from solar.web.cache import Cache


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40)), max_size=60))
def test_the_budget_is_kept_and_the_latest_stay(puts: list[tuple[int, int]]) -> None:
    kept: Cache[int, bytes] = Cache(100, len)
    for key, size in puts:
        kept.put(key, bytes(size))
        assert kept.get(key) == bytes(size)
        assert kept.bytes <= 100
    values = [kept.get(key) for key in range(10)]
    assert kept.bytes == sum(len(value) for value in values if value is not None)


def test_what_was_used_lately_stays() -> None:
    kept: Cache[str, bytes] = Cache(2, len)
    kept.put("a", b"a")
    kept.put("b", b"b")
    kept.get("a")
    kept.put("c", b"c")
    assert [kept.get(key) for key in "abc"] == [b"a", None, b"c"]


def test_what_is_too_large_is_not_kept_and_drops_nothing() -> None:
    kept: Cache[str, bytes] = Cache(2, len)
    kept.put("a", b"a")
    kept.put("b", b"large")
    assert (kept.get("a"), kept.get("b")) == (b"a", None)
