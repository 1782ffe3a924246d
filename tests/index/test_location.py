from pathlib import Path

import numpy as np
import pytest
from support.unit_rows import unit_rows

from solar import locate
from solar.demo import toy
from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.index.location import Witness, judged
from solar.storage.geo import distances
from solar.storage.types import Photo

HERE, NEXT_DOOR, ELSEWHERE = (45.75, 21.22), (45.7505, 21.2205), (45.80, 21.30)


def witnesses(*points: tuple[tuple[float, float], int]) -> list[Witness]:
    return [Witness(f"{n}.jpg", place, inliers) for n, (place, inliers) in enumerate(points)]


def test_photos_that_agree_give_their_mean_and_a_radius() -> None:
    found = judged(witnesses((HERE, 60), (NEXT_DOOR, 20), (ELSEWHERE, 12)))
    assert found.position is not None
    assert [one.path for one in found.photos] == ["0.jpg", "1.jpg"]
    near, far = distances(found.position, [HERE, NEXT_DOOR])
    assert near * 3 == pytest.approx(far, rel=0.01)
    assert found.radius == 100
    assert found.to_dict()["located"]


def test_the_mean_does_not_mind_the_date_line() -> None:
    found = judged(witnesses(((10.0, 179.9995), 40), ((10.0, -179.9995), 40)))
    assert found.position is not None
    assert abs(found.position[1]) == pytest.approx(180)


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([], "no photo with a position matches"),
        ([(HERE, 29)], "too few points"),
        ([(HERE, 29), (NEXT_DOOR, 14)], "too few points"),
        ([(HERE, 29), (ELSEWHERE, 29)], "too few points"),
        ([(HERE, 50), (ELSEWHERE, 40)], "different places"),
    ],
)
def test_little_or_contrary_evidence_is_no_claim(
    points: list[tuple[tuple[float, float], int]], reason: str
) -> None:
    found = judged(witnesses(*points))
    assert not found
    assert found.position is None
    assert found.reason.startswith("not enough evidence")
    assert reason in found.reason


def test_two_fair_matches_of_one_place_are_enough() -> None:
    assert judged(witnesses((HERE, 16), (NEXT_DOOR, 15)))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two landmarks, two views each, and a third that nobody has been at."""
    home = tmp_path_factory.mktemp("locate")
    (home / "photos").mkdir()
    photos = []
    for landmark, place in ((0, HERE), (6, ELSEWHERE), (7, None)):
        for view in (0, 1):
            name = f"{landmark}-{view}.jpg"
            drawn = toy.landmark(landmark or 10, view, size=(320, 240))
            drawn.save(home / "photos" / name)
            photos.append(Photo(name, 320, 240, position=place))
    vectors = unit_rows(0, len(photos), 8)
    Index.create(home / "i.solar", vectors, photos, roots=Roots.at(home / "photos")).close()
    return home / "i.solar"


def test_a_photo_is_located_by_its_look_alikes_and_not_by_itself(index: Path) -> None:
    found = locate("0-0.jpg", index)
    assert found.position == pytest.approx(HERE)
    assert [one.path for one in found.photos] == ["0-1.jpg"]
    assert found.photos[0].absolute == str(index.parent / "photos" / "0-1.jpg")


def test_a_photo_of_somewhere_else_is_not_located(index: Path) -> None:
    with Index.open(index) as opened:
        assert not locate("7-0.jpg", opened)


def test_an_index_without_positions_is_told(index: Path, tmp_path: Path) -> None:
    roots = Roots.at(index.parent / "photos")
    one = Index.create(tmp_path / "i.solar", np.eye(2), ["0-0.jpg", "6-0.jpg"], roots=roots)
    with one, pytest.raises(SolarError, match="position"):
        locate("0-0.jpg", one)
