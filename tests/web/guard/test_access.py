from urllib.parse import parse_qs

import pytest

from solar.web.guard.access import Keys, signed_name
from solar.web.guard.rates import Rates, cost_of
from solar.web.problems import WebError


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_again() -> None:
    clock = Clock()
    rates = Rates(2.0, 3.0, clock)
    for _ in range(3):
        rates.spend("1.2.3.4", 1.0)
    with pytest.raises(WebError, match="Too many"):
        rates.spend("1.2.3.4", 1.0)
    rates.spend("1.2.3.5", 1.0)  # somebody else
    clock.now += 0.5
    rates.spend("1.2.3.4", 1.0)
    with pytest.raises(WebError):
        rates.spend("1.2.3.4", 1.0)


def test_one_household_is_one_visitor() -> None:
    rates = Rates(1.0, 1.0, Clock())
    rates.spend("2001:db8::1", 1.0)
    with pytest.raises(WebError):
        rates.spend("2001:db8::2", 1.0)


def test_visitors_remembered_are_bounded() -> None:
    rates = Rates(1.0, 5.0, Clock(), most=10)
    for number in range(100):
        rates.spend(f"10.0.0.{number}", 1.0)
    assert len(rates._buckets) == 10


def test_signatures_end() -> None:
    clock = Clock()
    keys = Keys("open sesame", clock)
    signed = keys.sign("7")
    assert keys.sign("8") != signed
    keys.check("/api/v1/photos/7/photo", f"k={signed}", {})
    until = int(parse_qs(f"k={signed}")["k"][0].split(".")[0], 16)
    assert 3600 <= until - clock.now <= 7200
    clock.now = until + 1
    with pytest.raises(WebError, match="token"):
        keys.check("/api/v1/photos/7/photo", f"k={signed}", {})


def test_the_address_of_a_small_picture_does_not_open_the_original() -> None:
    keys = Keys("open sesame")
    small, whole = (keys.sign(signed_name("7", picture)) for picture in ("photo", "original"))
    keys.check("/api/v1/photos/7/original", f"k={whole}", {})
    for picture, signed in (("original", small), ("photo", whole), ("thumbnail", whole)):
        with pytest.raises(WebError, match="token"):
            keys.check(f"/api/v1/photos/7/{picture}", f"k={signed}", {})


def test_no_signature_holds_in_another_index() -> None:
    signed = Keys("open sesame", realm="/indexes/a").sign("17")
    Keys("open sesame", realm="/indexes/a").check("/api/v1/photos/17/photo", f"k={signed}", {})
    with pytest.raises(WebError, match="token"):
        Keys("open sesame", realm="/indexes/a1").check("/api/v1/photos/7/photo", f"k={signed}", {})


@pytest.mark.parametrize(
    ("method", "path", "cost"),
    [
        ("GET", "/", 0),
        ("GET", "/api/v1/photos/7/thumbnail", 0.1),
        ("GET", "/api/v1/photos/7/original", 1),
        ("GET", "/api/v1/albums/export", 1),
        ("POST", "/api/v1/search", 1),
    ],
)
def test_work_counts_in_full(method: str, path: str, cost: float) -> None:
    assert cost_of(method, path) == cost


@pytest.mark.parametrize("key", ["", ".", "ffffffffff.", "zz.00", "ffffffffff.é", "-1.00"])
def test_what_is_no_signature_opens_nothing(key: str) -> None:
    with pytest.raises(WebError):
        Keys("open sesame").check("/api/v1/photos/7/photo", f"k={key}", {})
