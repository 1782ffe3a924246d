import pytest

from solar.errors import SolarError
from solar.search.parts import Part, parts_of

BOX = (1, 2, 30, 40)


def test_a_query_is_a_part_or_a_list_of_parts() -> None:
    mine = Part("b.jpg", BOX)
    assert [(part.photo, part.box) for part in parts_of("a.jpg")] == [("a.jpg", None)]
    assert [(part.photo, part.box) for part in parts_of("a.jpg", BOX)] == [("a.jpg", BOX)]
    assert parts_of(mine) == [mine]
    first, second = parts_of(["a.jpg", mine])
    assert (first.photo, first.box, second) == ("a.jpg", None, mine)


@pytest.mark.parametrize(
    ("query", "box", "said"),
    [
        ([], None, "at least one photo"),
        (["a.jpg", "b.jpg"], BOX, "a Part with its own"),
        (Part("a.jpg", BOX), BOX, "a Part with its own"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(query: object, box: object, said: str) -> None:
    with pytest.raises(SolarError, match=said):
        parts_of(query, box)  # type: ignore[arg-type]
