import sqlite3
from pathlib import Path

import numpy as np
import pytest

from solar.errors import SolarError
from solar.images.exif import ExifFacts
from solar.index import Index
from solar.storage.types import Amendment, Photo

EIFFEL, COLOSSEUM = (48.8582, 2.2945), (41.8902, 12.4922)
PHOTOS = [
    Photo("gone.jpg", position=(1.0, 2.0)),
    Photo("paris.jpg", taken="2019-07-14T18:30:00", position=EIFFEL, camera="Canon EOS 5D"),
    Photo("rome.jpg", tags=("night",), position=COLOSSEUM),
    Photo("nowhere.jpg", taken="2021-01-01T00:00:00"),
    Photo("film.jpg", camera="Leica M3"),
]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    index = Index.create(tmp_path / "i.solar", np.eye(len(PHOTOS)), PHOTOS)
    index.remove("gone.jpg")
    return index


def near(index: Index, *where: str) -> list[str]:
    return [hit.path for hit in index.search(np.ones(len(PHOTOS)), 9, where=list(where))]


def test_positions_and_cameras_come_back_also_after_gaps_were_closed(
    index: Index, tmp_path: Path
) -> None:
    for opened in (index, Index.open(tmp_path / "i.solar")):
        assert [opened.photo(one.path) for one in PHOTOS[1:]] == PHOTOS[1:]
    index.compact()
    assert [index.photo(one.path) for one in PHOTOS[1:]] == PHOTOS[1:]
    with index.copy(tmp_path / "copy.solar") as copied:
        assert [copied.photo(one.path) for one in PHOTOS[1:]] == PHOTOS[1:]
        assert copied.check() == []


def test_photos_are_found_by_where_they_were_taken(index: Index) -> None:
    assert near(index, "near=48.858,2.294,500m") == ["paris.jpg"]
    assert near(index, "near=48.858,2.294,20m") == []
    assert sorted(near(index, "near=45,7,1000km")) == ["paris.jpg", "rome.jpg"]
    assert near(index, "near=45,7,1000km", "tag=night") == ["rome.jpg"]
    assert near(index, "near=1,2,1km") == []  # what was removed is nowhere


def test_info_counts_what_is_known(index: Index) -> None:
    facts = index.info()
    assert (facts["with_time"], facts["with_position"], facts["with_camera"]) == (2, 2, 2)
    assert facts["taken"] == ["2019-07-14T18:30:00", "2021-01-01T00:00:00"]
    assert facts["latitude"] == [41.8902, 48.8582]
    assert facts["longitude"] == [2.2945, 12.4922]


def test_more_facts_leave_what_is_known(index: Index) -> None:
    told = {
        "paris.jpg": ExifFacts(camera="Nikon D90"),
        "nowhere.jpg": ExifFacts("2020-02-02T00:00:00", COLOSSEUM),
    }
    index.engine.amend(Amendment(facts=told))
    assert index.check() == []
    assert index.photo("paris.jpg").position == EIFFEL
    assert index.photo("paris.jpg").camera == "Nikon D90"
    assert index.photo("nowhere.jpg").position == COLOSSEUM
    assert index.photo("nowhere.jpg").taken == "2020-02-02T00:00:00"


def test_no_position_anywhere_is_one_sentence(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i.solar", np.eye(2), [Photo("a.jpg", camera="x"), "b.jpg"])
    with pytest.raises(SolarError, match="position"):
        index.search(np.ones(2), where="near=0,0,1m")


def test_a_changed_position_is_damage(index: Index, tmp_path: Path) -> None:
    index.close()
    connection = sqlite3.connect(tmp_path / "i.solar" / "catalogue.sqlite")
    with connection:
        connection.execute("UPDATE places SET latitude = 0 WHERE latitude > 48")
    connection.close()
    with Index.open(tmp_path / "i.solar") as opened:
        assert any("damaged" in problem for problem in opened.check())
