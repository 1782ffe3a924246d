"""Albums through the API."""

import csv
import io
import shutil
from pathlib import Path

import pytest
from support.web_visits import Home, Open, numbers

from solar.albums.report import GroupPhoto, GroupReport, PhotoGroup
from solar.web.serving import found_reports
from solar.web.settings import WebSettings

NAMES = [f"landmark-00{one}/view-00{two}.jpg" for one in range(4) for two in range(3)]


def album(names: list[str]) -> PhotoGroup:
    return PhotoGroup(tuple(GroupPhoto(name, 2, 30, 0.9) for name in names), len(names))


GROUPS = [album([*NAMES[:5], "gone.jpg"]), album(NAMES[5:8]), album(NAMES[8:])]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    GroupReport(14, GROUPS).write(tmp_path / "groups.json")
    return tmp_path / "groups.json"


def test_albums_come_by_page_with_their_first_photos(open_app: Open, file: Path) -> None:
    client = open_app(groups=file)
    assert client.get("/api/v1/info").json()["features"]["albums"] is True
    page = client.get("/api/v1/albums", params={"limit": 2, "shown": 3}).json()
    assert (page["total"], page["photos"], page["grouped"]) == (3, 14, 13)
    assert [one["count"] for one in page["albums"]] == [6, 3]
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


def test_albums_are_exported(open_app: Open, file: Path) -> None:
    client = open_app(groups=file)
    asked = {"form": "json"}
    told = client.get("/api/v1/albums/export", params=asked).json()
    assert [PhotoGroup.from_dict(one) for one in told] == GROUPS
    table = client.get("/api/v1/albums/export", params={"form": "csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(table.text, newline="")))
    assert [(row["group"], row["name"]) for row in rows] == [
        (str(number), name) for number, group in enumerate(GROUPS, 1) for name in group.names
    ]
    one = {"form": "paths", "album": GROUPS[1].id}
    assert client.get("/api/v1/albums/export", params=one).text.splitlines() == NAMES[5:8]
    assert client.get("/api/v1/albums/export", params={"form": "xml"}).status_code == 422


def test_groups_that_are_written_again_are_read_again(open_app: Open, file: Path) -> None:
    client = open_app(groups=file)
    GroupReport(14, GROUPS[:1]).write(file)
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
