import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solar.errors import SolarError
from solar.storage.geo import Area, distances, in_space, on_ground, parse_area, straight

PARIS, BERLIN = (48.8566, 2.3522), (52.52, 13.405)


def test_distances_are_those_along_the_ground() -> None:
    found = distances(PARIS, [PARIS, BERLIN, (-48.8566, -177.6478)])
    np.testing.assert_allclose(found, [0, 877_500, np.pi * 6_371_008.8], rtol=1e-3)


def test_the_date_line_is_no_distance() -> None:
    assert distances((0, 179.999), [(0, -179.999)])[0] == pytest.approx(222.4, abs=0.1)


positions = st.tuples(st.floats(-89, 89), st.floats(-179, 179))


@given(positions, positions)
def test_points_in_space_are_as_far_apart_as_on_the_ground(
    a: tuple[float, float], b: tuple[float, float]
) -> None:
    points = in_space([a, b])
    assert on_ground(points[0]) == pytest.approx(a)
    through = np.linalg.norm(points[0] - points[1])
    assert straight(distances(a, [b])[0]) == pytest.approx(through, rel=1e-6, abs=1)


@pytest.mark.parametrize(
    ("text", "area"),
    [
        ("48.858,2.294,500m", Area(48.858, 2.294, 500)),
        (" -33.9 , +18.4 , 2 km ", Area(-33.9, 18.4, 2000)),
        ("90,-180,0.5m", Area(90, -180, 0.5)),
    ],
)
def test_an_area_is_read(text: str, area: Area) -> None:
    assert parse_area(text) == area
    assert parse_area(str(area)) == area


@pytest.mark.parametrize(
    "text",
    ["", "Paris", "48.858,2.294", "48.858,2.294,500", "91,0,1m", "0,181,1m", "1,2,-3m", "\0"],
)
def test_what_is_no_area_is_one_sentence(text: str) -> None:
    with pytest.raises(SolarError, match=r"is not understood: .*near=48\.858,2\.294,500m"):
        parse_area(text)


@given(st.floats(-90, 90), st.floats(-180, 180), st.floats(0, 2e7), st.floats(-90, 90))
def test_no_latitude_beyond_the_reach_lies_inside(
    north: float, east: float, metres: float, other: float
) -> None:
    area = Area(north, east, metres)
    low, high = area.latitudes
    assert not area.holds([(other, east)])[0] or low <= other <= high
