"""Reports of duplicates and of albums through the API."""

import csv
import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.drawn_report import drawn_group, drawn_groups
from support.web_visits import Home, Open, numbers

from solar.albums.report import GroupPhoto, GroupReport, PhotoGroup
from solar.errors import SolarError
from solar.near_duplicates.report import DuplicateReport
from solar.web.serving import found_reports
from solar.web.settings import WebSettings

NAMES = [f"landmark-00{one}/view-00{two}.jpg" for one in range(4) for two in range(3)]
GROUPS = list(drawn_groups(NAMES[:11], 60))


def album(names: list[str]) -> PhotoGroup:
    return PhotoGroup(tuple(GroupPhoto(name, 2, 30, 0.9) for name in names), len(names))


ALBUMS = [album([*NAMES[:5], "gone.jpg"]), album(NAMES[5:8]), album(NAMES[8:])]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    DuplicateReport(14, GROUPS).write(tmp_path / "report.json")
    return tmp_path / "report.json"


def test_groups_come_by_page_and_kind_with_their_pictures(open_app: Open, report: Path) -> None:
    client = open_app(duplicates=report, name="toy")
    assert client.get("/api/v1/info").json()["features"]["duplicates"] is True
    told = client.get("/api/v1/duplicates").json()
    assert (told["name"], told["photos"]) == ("toy", 14)
    assert told["kinds"] == dict.fromkeys(("exact", "copy", "crop", "burst", "place"), 12)
    assert [kind for kind, _ in told["groups"]] == [group.kind for group in GROUPS]
    assert len({identity for _, identity in told["groups"]}) == 60

    asked = {"offset": 3, "limit": 4, "kind": "crop"}
    page = client.get("/api/v1/duplicates/groups", params=asked).json()
    crops = [group for group in GROUPS if group.kind == "crop"]
    assert page["total"] == 12
    assert len(page["groups"]) == 4
    known = numbers(client)
    for got, wanted in zip(page["groups"], crops[3:7], strict=True):
        assert [one["name"] for one in got["photos"]] == [one.name for one in wanted.photos]
        assert [one["keep"] for one in got["photos"]] == [one.keep for one in wanted.photos]
        assert got["pairs"][0]["mapping"] == [list(row) for row in wanted.pairs[0].mapping or ()]
        assert [one["id"] for one in got["photos"]] == [known[one.name] for one in wanted.photos]
    shown = page["groups"][0]["photos"][0]
    for address in (shown["thumbnail"], shown["photo"]):
        assert client.get(address).headers["content-type"] == "image/jpeg"
    beyond = client.get("/api/v1/duplicates/groups", params={"offset": 60}).json()
    assert beyond == {"total": 60, "groups": []}
    wrong = client.get("/api/v1/duplicates/groups", params={"kind": "twin"})
    assert (wrong.status_code, wrong.json()["error"][:5]) == (422, "kind:")


def test_only_photos_of_the_index_are_shown_and_only_to_whom_it_is(
    open_app: Open, tmp_path: Path, home: Home
) -> None:
    secret = [NAMES[0], "../model.safetensors", str(home / "photos" / NAMES[1])]
    DuplicateReport(3, [drawn_group("copy", secret)]).write(tmp_path / "secret.json")
    client = open_app(duplicates=tmp_path / "secret.json", token="long-enough")
    for path in ("duplicates", "duplicates/groups"):
        assert client.get(f"/api/v1/{path}").status_code == 401
    right = {"Authorization": "Bearer long-enough"}
    [group] = client.get("/api/v1/duplicates/groups", headers=right).json()["groups"]
    ours, *others = group["photos"]
    assert client.get(ours["photo"]).status_code == 200  # its address is signed
    assert client.get(ours["photo"].partition("?")[0]).status_code == 401
    assert all(one["id"] is one["photo"] is one["thumbnail"] is None for one in others)


def test_without_a_report_there_is_a_sentence(client) -> None:
    assert client.get("/api/v1/info").json()["features"]["duplicates"] is False
    for path in ("duplicates", "duplicates/groups"):
        answer = client.get(f"/api/v1/{path}")
        assert answer.status_code == 404
        assert "--duplicates" in answer.json()["error"]


@pytest.mark.parametrize("damage", ["cut", "alone", "type", "name"])
def test_a_damaged_report_is_refused_in_one_sentence(
    open_app: Open, report: Path, damage: str
) -> None:
    if damage == "cut":
        report.write_bytes(report.read_bytes()[:-200])
    elif damage == "alone":
        DuplicateReport(14, [replace(GROUPS[0], pairs=())]).write(report)
    elif damage == "name":
        report.write_bytes(report.read_bytes().replace(b"view-000", b"view-\xff", 1))
    else:
        report.write_text(report.read_text().replace('"keep": true', '"keep": [1]', 1))
    with pytest.raises(SolarError, match=r"report\.json"):
        open_app(duplicates=report)


def test_a_new_report_is_taken_up_unless_it_is_damaged(open_app: Open, report: Path) -> None:
    client = open_app(duplicates=report)
    before = client.get("/api/v1/duplicates").json()["groups"]
    DuplicateReport(14, GROUPS[:7]).write(report)
    assert client.get("/api/v1/duplicates").json()["groups"] == before[:7]
    report.write_text("{")
    assert client.get("/api/v1/duplicates").json()["groups"] == before[:7]
    report.unlink()
    assert client.get("/api/v1/duplicates/groups").json()["total"] == 7


@pytest.fixture
def file(tmp_path: Path) -> Path:
    GroupReport(14, ALBUMS).write(tmp_path / "groups.json")
    return tmp_path / "groups.json"


def test_albums_come_by_page_with_their_first_photos(open_app: Open, file: Path) -> None:
    client = open_app(groups=file)
    assert client.get("/api/v1/info").json()["features"]["albums"] is True
    page = client.get("/api/v1/albums", params={"limit": 2, "shown": 3}).json()
    assert (page["total"], page["photos"], page["grouped"]) == (3, 14, 13)
    assert [one["count"] for one in page["albums"]] == [6, 3]
    assert page["outdated"] is False
    first = page["albums"][0]
    assert [photo["name"] for photo in first["photos"]] == NAMES[:3]
    assert (first["agreement"], first["links"]) == (0.9, 6)
    assert client.get(first["photos"][0]["thumbnail"]).headers["content-type"] == "image/jpeg"

    opened = client.get(f"/api/v1/albums/{first['id']}", params={"offset": 4}).json()
    assert opened["count"] == 6
    shown, gone = opened["photos"]
    assert shown["id"] == numbers(client)[NAMES[4]]
    assert (gone["name"], gone["id"], gone["thumbnail"]) == ("gone.jpg", None, None)
    assert client.get("/api/v1/albums/nobody").status_code == 404


def test_albums_are_called_as_their_folders_until_they_are_renamed(
    open_app: Open, copy: Path, file: Path
) -> None:
    index = {"index": copy / "model.solar", "photos": copy / "photos"}
    assert (
        open_app(groups=file)
        .post(f"/api/v1/albums/{ALBUMS[0].id}/name", json={"name": "x"})
        .status_code
        == 403
    )
    client = open_app(groups=file, writable=True, **index)
    folder = Path(ALBUMS[0].names[0]).parent.name
    names = [one["name"] for one in client.get("/api/v1/albums").json()["albums"]]
    assert names[0] == folder.replace("_", " ")
    named = client.post(f"/api/v1/albums/{ALBUMS[0].id}/name", json={"name": " Our house "})
    assert named.json()["name"] == "Our house"
    fewer = PhotoGroup(ALBUMS[0].photos[:-1], ALBUMS[0].links)
    GroupReport(13, [fewer]).write(file)  # found again, with another id
    page = client.get("/api/v1/albums").json()
    assert page["outdated"] is True  # of fewer photos than the collection has
    [album] = page["albums"]
    assert (album["id"] == ALBUMS[0].id, album["name"]) == (False, "Our house")
    client.post(f"/api/v1/albums/{album['id']}/name", json={"name": ""})
    assert client.get("/api/v1/albums").json()["albums"][0]["name"] == names[0]


def test_albums_are_exported(open_app: Open, file: Path) -> None:
    client = open_app(groups=file)
    asked = {"form": "json"}
    told = client.get("/api/v1/albums/export", params=asked).json()
    assert [PhotoGroup.from_dict(one) for one in told] == ALBUMS
    table = client.get("/api/v1/albums/export", params={"form": "csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(table.text, newline="")))
    assert [(row["group"], row["name"]) for row in rows] == [
        (str(number), name) for number, group in enumerate(ALBUMS, 1) for name in group.names
    ]
    one = {"form": "paths", "album": ALBUMS[1].id}
    assert client.get("/api/v1/albums/export", params=one).text.splitlines() == NAMES[5:8]
    assert client.get("/api/v1/albums/export", params={"form": "xml"}).status_code == 422


def test_groups_that_are_written_again_are_read_again(open_app: Open, file: Path) -> None:
    client = open_app(groups=file)
    GroupReport(14, ALBUMS[:1]).write(file)
    assert client.get("/api/v1/albums").json()["total"] == 1
    file.write_text("half a fi")
    assert client.get("/api/v1/albums").json()["total"] == 1
    without = open_app()
    assert without.get("/api/v1/info").json()["features"]["albums"] is False
    answer = without.get("/api/v1/albums")
    assert (answer.status_code, answer.json()["error"][:25]) == (404, "This server has no albums")


def test_a_file_beside_the_index_is_found_unless_it_is_damaged(home: Home, file: Path) -> None:
    index, said = file.parent / "mine.solar", list[str]()
    assert found_reports(str(index), WebSettings(), said.append) == {}
    beside = file.parent / "mine.groups.json"
    shutil.copy(file, beside)
    assert found_reports(str(index), WebSettings(), said.append) == {"groups": beside}
    assert found_reports(str(index), WebSettings(groups=file), said.append) == {}
    (file.parent / "mine.duplicates.json").write_text("{}")
    assert found_reports(str(index), WebSettings(), said.append) == {"groups": beside}
    assert [sentence.startswith("Ignored: ") for sentence in said] == [True]
