"""An index of somebody else's shows no folder that nobody has named for it here."""

import json
import shutil
from pathlib import Path

import pytest
from support.running import solar

from solar.describe import Throughput
from solar.errors import SolarError
from solar.images import Root, Roots, find_photos
from solar.images.known_roots import confirmed_roots, shown_roots
from solar.index import Index
from solar.index.add import add
from solar.index.build import build, fill
from solar.index.sync import relocate, sync
from solar.models import RetrievalNet, save


def named(index: Index) -> Roots:
    return confirmed_roots(index.place, index.roots)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def private(photos: Path, tmp_path: Path) -> Path:
    """A folder that a stranger should not see."""
    folder = tmp_path / "home" / "private"
    folder.mkdir(parents=True)
    shutil.copy(photos / "landmark-0" / "00.png", folder)
    return folder


@pytest.fixture
def foreign(tmp_path: Path, private: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index that somebody else has made, and which names that folder."""
    place = tmp_path / "home" / "foreign.solar"
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("SOLAR_CACHE", str(tmp_path / "theirs"))
        index = Index.create(place, [[1.0, 0.0]], ["00.png"], roots=Roots.at(private))
        assert named(index) == index.roots
    return index


def test_what_somebody_sent_shows_nothing_that_was_not_confirmed(
    foreign: Index, private: Path, tmp_path: Path
) -> None:
    with pytest.raises(SolarError, match=rf"`roots={private}`"):
        shown_roots(foreign.place, foreign.roots)
    with pytest.raises(SolarError, match="have not confirmed"):
        shown_roots(foreign.place, foreign.roots, given=[tmp_path / "home" / "other"])
    assert shown_roots(foreign.place, foreign.roots, photos=tmp_path) == Roots.at(tmp_path)
    with pytest.raises(SolarError):  # that was for once
        shown_roots(foreign.place, foreign.roots)
    assert shown_roots(foreign.place, foreign.roots, given=[private.parent]) == foreign.roots
    assert shown_roots(foreign.place, foreign.roots) == foreign.roots  # from now on


def test_a_confirmation_needs_no_place_to_be_kept(
    foreign: Index, private: Path, cache: Path
) -> None:
    cache.write_text("a file, where a folder should be")
    assert shown_roots(foreign.place, foreign.roots, given=[private]) == foreign.roots
    with pytest.raises(SolarError):
        shown_roots(foreign.place, foreign.roots)


def test_damaged_notes_confirm_nothing(foreign: Index, private: Path, cache: Path) -> None:
    shown_roots(foreign.place, foreign.roots, given=[private])
    [note] = (cache / "roots").iterdir()
    for text in ("", "[]", '{"roots": 3}', json.dumps({"roots": [["x"]]})):
        note.write_text(text)
        with pytest.raises(SolarError, match="have not confirmed"):
            shown_roots(foreign.place, foreign.roots)


def test_written_forms_and_links_lead_nowhere_else(tmp_path: Path, private: Path) -> None:
    fine = tmp_path / "fine"
    fine.mkdir()
    (fine / "link").symlink_to(private)
    for written in (fine / "link", f"{fine}/../home/private"):
        with pytest.raises(SolarError, match="have not confirmed"):
            shown_roots("some.solar", Roots((Root(str(written)),)), given=[fine])
    many = Roots(tuple(Root(f"/no/{number} $(rm)") for number in range(9)))
    with pytest.raises(SolarError, match="`roots=FOLDER`") as told:
        shown_roots("some.solar", many)
    assert "and 1 more" in str(told.value)
    with pytest.raises(SolarError, match=r"`roots='/no/0 \$\(rm\)'` .*`roots='/no/7 \$\(rm\)'`;"):
        shown_roots("some.solar", Roots(many.roots[:8]))


def test_changing_or_copying_a_foreign_index_confirms_only_what_was_named(
    foreign: Index, private: Path, photos: Path, tmp_path: Path
) -> None:
    with foreign.copy(tmp_path / "copy.solar") as copied:
        assert not named(copied)
    assert sync(foreign).touched
    assert not named(foreign)
    mine = tmp_path / "mine"
    shutil.copytree(private, mine)
    relocate(foreign, mine)
    assert named(foreign) == Roots.at(mine)
    with foreign.copy(tmp_path / "again.solar") as copied:
        assert named(copied) == Roots.at(mine)


def test_what_the_user_gave_is_known_through_building_and_adding(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    few = Throughput(decoders=0, batch=4)
    first, second = photos / "landmark-0", photos / "landmark-1"
    model = save(tiny, tmp_path / "tiny.safetensors")
    with build(first, tmp_path / "a.solar", model=model, throughput=few) as index:
        assert named(index) == Roots.at(first)
    with add([second], tmp_path / "a.solar").index as index:
        assert [root.path for root in named(index).roots] == [str(first), str(second)]
    # Photos may have been found by a stranger's index: filling another says nothing.
    with fill(tmp_path / "c.solar", find_photos(first), model=tiny, throughput=few) as index:
        assert not named(index)
    moved = (tmp_path / "a.solar").rename(tmp_path / "moved.solar")
    with Index.open(moved) as index, pytest.raises(SolarError, match="roots="):
        shown_roots(index.place, index.roots)


def test_commands_ask_before_they_show_photos(
    foreign: Index, private: Path, tmp_path: Path
) -> None:
    foreign.close()
    search = ("search", foreign.place, "name:00.png", "--include-self")
    assert "00.png" in solar(*search).stdout  # names are no pictures
    page = tmp_path / "page.html"
    refused = solar(*search, "--html", page, expect=2)
    assert refused.stderr.count("\n") == 1
    assert f"--allow-root {private}" in refused.stderr
    assert not page.exists()
    drawn = solar("index", "map", foreign.place, "-o", tmp_path / "map.png", expect=2)
    assert f"--allow-root {private}" in drawn.stderr
    solar(*search, "--html", page, "--allow-root", private)
    assert "data:image/" in page.read_text()
