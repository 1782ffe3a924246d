import pytest
from hypothesis import given
from hypothesis import strategies as st

from solar.errors import SolarError
from solar.storage.conditions import Condition, parse_where
from solar.storage.milvus.filter import after_prefix, expression, quoted

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def unquoted(literal: str) -> str:
    """Read a literal as the grammar of Milvus does."""
    assert literal[0] == literal[-1] == '"'
    inside, text = iter(literal[1:-1]), ""
    for character in inside:
        assert character not in '"\n\r'
        text += (
            {"\\": "\\", '"': '"', "n": "\n", "r": "\r"}[next(inside)]
            if character == "\\"
            else character
        )
    return text


@given(TEXT)
def test_a_quoted_text_reads_as_itself(text: str) -> None:
    assert unquoted(quoted(text)) == text


@given(TEXT, TEXT)
def test_a_range_of_texts_is_those_with_the_prefix(prefix: str, other: str) -> None:
    end = after_prefix(prefix)
    for text in (other, prefix + other):
        assert (prefix <= text and (end is None or text < end)) == text.startswith(prefix)


def test_no_conditions_are_no_expression() -> None:
    assert expression(()) == ""


def test_a_time_is_compared_only_where_it_is_known() -> None:
    assert expression(parse_where("taken<2019")) == '(taken != "" and taken < "2019")'


def test_the_tag_of_a_partition_also_names_the_partition() -> None:
    where = (Condition("tag", "=", "country/it"), Condition("tag", "=", "night"))
    assert expression(where, "country/").endswith(' and (partition == "country/it")')
    assert "partition" not in expression(where)
    assert "night" not in expression(where, "country/").split("partition")[1]


def test_positions_are_refused_in_one_sentence() -> None:
    with pytest.raises(SolarError, match="positions"):
        expression(parse_where("near=48.858,2.294,500m"))
