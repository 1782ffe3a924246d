"""Which own fields a photo may have."""

import math
from typing import Any

import pytest

from solar.errors import SolarError
from solar.storage.own_fields import own_fields
from solar.storage.types import Photo


def test_texts_numbers_and_booleans_stay_what_they_are() -> None:
    given = {"color": "", "floor": -3, "height above sea": 1.5, "日本": True, "x": 1e300}
    kept = own_fields(given)
    assert kept == given
    assert [type(value) for value in kept.values()] == [type(value) for value in given.values()]


def test_what_is_none_is_left_out_and_whole_numbers_are_integers() -> None:
    photo = Photo("a.jpg", fields={"owner": None, "floor": 3.0})
    assert repr(photo.fields) == "{'floor': 3}"
    assert photo == Photo("a.jpg", fields={"floor": 3})


@pytest.mark.parametrize("value", [[1], {"a": 1}, math.nan, -math.inf, 2**53 + 1, "\ud800", "\0"])
def test_other_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(SolarError, match="'color'"):
        Photo("a.jpg", fields={"color": value})


@pytest.mark.parametrize(
    "name",
    [
        *("", " a", "a ", "a=b", "a<b", 'a"b', "a[b", "a\nb", "\ud800", "x" * 65),
        *("path", "tag", "tags", "width", "near", "position", "score", "fields"),
    ],
)
def test_names_that_conditions_could_not_tell_apart_are_refused(name: str) -> None:
    for value in ("x", None):
        with pytest.raises(SolarError, match="field"):
            own_fields({name: value})


def test_fields_that_are_too_long_are_refused_by_the_longest() -> None:
    assert own_fields({"text": "x" * 16_000})
    with pytest.raises(SolarError, match=r"'text'.* 16,384 bytes"):
        own_fields({"a": 1, "text": "é" * 8_200})
