"""The client and `solar search http://…`, against a real server."""

import http.server
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.http_thread import Quiet, answering
from support.running import solar
from support.web_browser import TOKEN
from support.web_server import served
from support.web_visits import PHOTOS, VIEWS, Home

from solar import Index, SolarError
from solar.client import Client

QUERY = Path("landmark-002") / "view-001.jpg"


@pytest.fixture(scope="module")
def address(home: Home) -> Iterator[str]:
    options = ("--token", TOKEN, "--root-path", "/mine", "--rate", 0)
    with served(home / "model.solar", *options) as (_, host, port):
        yield f"http://{host}:{port}/mine/"


def test_a_client_searches_and_sees_what_was_found(address: str, home: Home) -> None:
    client = Client(address, TOKEN)
    assert client.info()["photos"] == PHOTOS
    hits = client.search(home / "photos" / QUERY, k=5, rerank=[])
    assert hits[0].path == QUERY.as_posix()
    assert len(hits) == 5
    index = Index.open(home / "model.solar")
    local = index.search(home / "photos" / QUERY, k=5, rerank=None, include_self=True)
    assert [hit.path for hit in hits] == [hit.path for hit in local]
    known = hits[0].photo
    assert known is not None
    assert (known.width, known.height) == (index.photo(known.path).width, known.height)
    assert client.picture(hits[0]).startswith(b"\xff\xd8")
    assert client.photo(hits[0].id)["bytes"] == (home / "photos" / QUERY).stat().st_size
    assert client.original(hits[0]).startswith(b"\xff\xd8")
    everything = client.search(hits[0], k=PHOTOS + 300, rerank=[], include_self=True)
    assert len({hit.path for hit in everything}) == PHOTOS
    page = client.photos(limit=3, search="landmark-002")
    assert page["total"] == VIEWS
    assert "inliers" in client.match(page["photos"][0], hits[0])
    with pytest.raises(SolarError, match=local[0].path):
        client.picture(local[0])


def test_photos_are_added_from_afar(copy: Path, home: Home, tmp_path: Path) -> None:
    new = tmp_path / 'ein "Haus".jpg'
    new.write_bytes((home / "photos" / QUERY).read_bytes() + b" ")
    options = ("--photos", copy / "photos", "--writable", "--rate", 0)
    with served(copy / "model.solar", *options) as (_, host, port):
        client = Client(f"http://{host}:{port}")
        *_, told = client.add([new])
        assert len(told["added"]) == 1
        assert not told["failed"]
        assert client.photos(search="Haus")["total"] == 1
        *_, told = client.sync()
        assert told["error"] is None
        assert {"name": "uploads/", "photos": 1} in client.facets("upl")["folders"]
        assert client.remove(client.photos(search="Haus")["photos"]) == 1
        assert client.photos(search="Haus")["total"] == 0


def test_the_command_searches_on_a_server(
    address: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLAR_TOKEN", TOKEN)
    query = home / "photos" / QUERY
    found = json.loads(solar("search", address, query, "-k", 3, "--no-rerank", "--json").stdout)
    assert found[0]["path"] == QUERY.as_posix()
    assert len(found) == 3
    two = solar("search", address, query, query, "--box", "-", "--box", "9,9,99,99")
    assert QUERY.as_posix() in two.stdout
    wide = solar("search", address, query, "--where", "path=landmark-001/", "--json")
    assert [one["path"].partition("/")[0] for one in json.loads(wide.stdout)] == (
        ["landmark-001"] * VIEWS
    )
    named = (f"name:{QUERY.as_posix()}", "--include-self", "--no-rerank", "-k", 1)
    assert solar("search", address, *named).stdout == f"1.0000  {QUERY.as_posix()}\n"
    gone = solar("search", address, "gone.jpg", expect=2).stderr
    assert "gone.jpg is neither a file nor a photo in the index at http://" in gone
    never = solar("search", address, query, "--after", "2030")
    assert (never.stdout, never.stderr) == ("", "No photo matches these filters.\n")
    wrong = solar("search", address, query, "--after", "soon", expect=2)
    assert "The condition 'taken>=soon' is not understood: write a time as 2019" in wrong.stderr
    refused = solar("search", address, query, "--html", "page.html", expect=2)
    assert "A search on a server does not take --html: leave it out." in refused.stderr


def test_what_goes_wrong_is_one_sentence(address: str, home: Home) -> None:
    with pytest.raises(SolarError, match="SOLAR_TOKEN"):
        Client(address).info()
    with pytest.raises(SolarError, match="address"):
        Client("photos.solar")
    with pytest.raises(SolarError, match="does not answer"):
        Client("http://127.0.0.1:1").info()
    with pytest.raises(SolarError, match=r"gone\.jpg"):
        Client(address, TOKEN).search("gone.jpg")
    with pytest.raises(SolarError, match="refuses"):
        Client(address, TOKEN).search(b"no photo")
    with pytest.raises(SolarError, match=r"k .* 0"):
        Client(address, TOKEN).search("gone.jpg", k=0)
    for wrong in ("http://host:abc", "http://[::1", "ftp://host"):
        with pytest.raises(SolarError, match="address"):
            Client(wrong)
    with answering(_Other) as other, pytest.raises(SolarError, match="solar server"):
        Client(other).info()
    with answering(_Cut) as cut, pytest.raises(SolarError, match="does not answer"):
        Client(cut).info()


def test_no_other_server_learns_the_token() -> None:
    with answering(_Told) as told, answering(_Other) as other:
        _Told.elsewhere = other.replace("127.0.0.1", "localhost")
        with pytest.raises(SolarError, match="302"):
            Client(told, TOKEN).info()


def test_a_busy_server_is_asked_again() -> None:
    _Busy.asked = 0
    with answering(_Busy) as busy:
        assert Client(busy).info() == {"photos": 3}
    assert _Busy.asked == 2


class _Other(Quiet, http.server.BaseHTTPRequestHandler):
    """Answers everything with a page."""

    def do_GET(self) -> None:
        self._say(200, b"<html>")

    def _say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Busy(_Other):
    """Has no time at first."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        if self.asked == 1:
            self._say(503, b"{}", **{"Retry-After": "1"})
        else:
            self._say(200, b'{"photos": 3}')


class _Cut(_Other):
    """Breaks off."""

    def do_GET(self) -> None:
        self._say(200, b"{}", **{"Content-Length": "99"})


class _Told(_Other):
    """Sends visitors elsewhere."""

    elsewhere = ""

    def do_GET(self) -> None:
        self._say(302, b"", Location=self.elsewhere)
