import json
from pathlib import Path

import pytest
from support.running import refused, solar
from support.unit_rows import unit_rows

from solar.demo import toy
from solar.images import Roots
from solar.index import Index
from solar.storage.types import Photo

PLACE = (45.75, 21.22)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two views of one landmark and one of another, and an index that needs no network."""
    home = tmp_path_factory.mktemp("locate")
    (home / "photos").mkdir()
    facts = {"taken": "2019-07-14T18:30:00", "position": PLACE, "camera": "Canon EOS 5D"}
    known: list[Photo] = []
    for name, landmark, view in (("a", 10, 0), ("b", 10, 1), ("c", 7, 0)):
        toy.landmark(landmark, view, size=(320, 240)).save(home / "photos" / f"{name}.jpg")
        known.append(Photo(f"{name}.jpg", 320, 240, **facts if name == "b" else {}))
    rows, roots = unit_rows(0, 3, 8), Roots.at(home / "photos")
    Index.create(home / "i.solar", rows, known, roots=roots).close()
    Index.create(home / "plain.solar", rows, [p.path for p in known], roots=roots).close()
    return home


def test_a_photo_is_located_in_words_and_json(home: Path) -> None:
    first, second = solar("locate", home / "i.solar", "a.jpg").stdout.splitlines()
    assert first == "45.750000, 21.220000, within 100 m"
    assert second.endswith("points  45.750000, 21.220000  b.jpg")
    found = json.loads(solar("locate", home / "i.solar", "a.jpg", "--json").stdout)
    assert found["located"]
    assert found["position"] == pytest.approx(PLACE)
    assert [one["path"] for one in found["photos"]] == ["b.jpg"]


def test_too_little_evidence_is_an_answer(home: Path) -> None:
    found = json.loads(solar("locate", home / "i.solar", "c.jpg", "--json").stdout)
    assert (found["located"], found["position"]) == (False, None)
    assert found["reason"].startswith("not enough evidence: ")


def test_searches_filter_and_tell_where_and_when(home: Path) -> None:
    search = ("search", home / "i.solar", "a.jpg", "--no-rerank", "--json", "--near")
    [hit] = json.loads(solar(*search, "45.75,21.22,1km").stdout)
    assert hit["path"] == "b.jpg"
    told = {name: hit[name] for name in ("taken", "position", "camera")}
    assert told == {
        "taken": "2019-07-14T18:30:00",
        "position": list(PLACE),
        "camera": "Canon EOS 5D",
    }


def test_mistakes_are_sentences(home: Path) -> None:
    search = ("search", home / "i.solar", "a.jpg")
    for arguments, sentence in (
        ((*search, "--near", "Timisoara"), "near=Timisoara is not understood: write latitude"),
        ((*search, "--after", "2019-13-01"), "is not understood: write a time as 2019"),
        (("locate", home / "plain.solar", "a.jpg"), "No photo of this index has a position"),
    ):
        assert sentence in refused(*arguments)
