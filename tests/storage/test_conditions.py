import pytest

from solar.errors import SolarError
from solar.storage.conditions import Condition, parse_where
from solar.storage.types import Photo

NIGHT = Photo(
    "rome/1.jpg",
    1024,
    768,
    ("night", "river"),
    "2019-07-14T18:30:00",
    position=(41.89, 12.492),
    fields={"color": "red", "floor": 3.0, "indoor": True, "code": "03", "owner": None},
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("tag=night", True),
        ("tag=nigh", False),
        ("path=rome/", True),
        ("path=ome/", False),
        ("width>=1024", True),
        ("width<1024", False),
        ("height >= 769", False),
        ("taken>=2019", True),
        ("taken>=2019-07-14", True),
        ("taken<2019-07-14", False),
        ("taken<2019-07-14 18:31", True),
        ("near=41.8902,12.4922,1km", True),
        ("near = 41.8902, 12.4922, 10 m", False),
        ("color=red", True),
        ('color = "red"', True),
        ("color=re", False),
        ("color>=1", False),
        ("floor=3", True),
        ("floor=3.0", True),
        ("floor>=3", True),
        ("floor < 3.5", True),
        ("floor<3", False),
        ("floor=true", False),
        ("indoor=true", True),
        ("indoor=1", False),
        ("indoor>=0", False),
        ("code=03", True),
        ("code=3", False),
        ("owner=null", False),
        ("shelf=2", False),
    ],
)
def test_a_condition_means_what_it_says(text: str, holds: bool) -> None:
    [condition] = parse_where(text)
    assert condition.holds(NIGHT) is holds


def test_a_photo_without_time_and_position_was_taken_at_no_time_and_nowhere() -> None:
    for condition in parse_where(["taken>=1800", "taken<2200", "near=0,0,30000km"]):
        assert not condition.holds(Photo("a.jpg"))


def test_conditions_pass_through_and_nothing_is_no_condition() -> None:
    condition = Condition("tag", "=", "a = b")
    assert parse_where([condition]) == (condition,)
    assert parse_where("tag=a = b") == (condition,)
    assert parse_where({"tag": "a = b"}) == (condition,)
    assert parse_where({"indoor": True, "floor": 3}) == parse_where(["indoor=true", "floor=3"])
    assert parse_where(None) == ()


@pytest.mark.parametrize(
    "text",
    [
        *("night", "tag=", "tag>=a", "width=3", "width>=wide", "taken>=yesterday"),
        *("color=", "color==red", "color!=red", "floor>=high", "floor>=true", "floor<=3"),
        *("position=1", "score>=0.5", "a[b]=1", f"{'x' * 65}=1"),
        *("taken>=2019-13", "taken<2019-02-30", "taken>=2019-07-14T25", "near=Rome", "near<1,2,3m"),
        f"width>={2**64}",
    ],
)
def test_a_condition_that_makes_no_sense_is_one_sentence(text: str) -> None:
    with pytest.raises(SolarError, match="understood"):
        parse_where(text)


def test_what_is_no_text_is_one_sentence() -> None:
    with pytest.raises(SolarError, match="2019"):
        parse_where([2019])  # type: ignore[list-item]
    with pytest.raises(SolarError, match=r"'tag'.*\['night', 'river'\]"):
        parse_where({"tag": ["night", "river"]})  # type: ignore[dict-item]
