"""The server as a process of its own, over a real socket."""

import contextlib
import http.client
import json
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.nasty_folder import photo
from support.running import solar
from support.web_server import running, served
from support.web_visits import PHOTOS, Home, Open

from solar.errors import SolarError
from solar.index.sync import relocate
from solar.web.serving import check_exposure, collection_name, comparison, serve
from solar.web.settings import WebSettings

GIB = 2**30


def ask(host: str, port: int, path: str, sent: dict[str, Any] | None = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    if sent is None:
        connection.request("GET", path)
    else:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(sent), headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def ask_bytes(host: str, port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def memory(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def post_endless(host: str, port: int, headers: str) -> tuple[bytes, int]:
    """Send a gigabyte until the server answers; gives its answer and the bytes that went out."""
    start = (
        f"POST /api/v1/queries HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\n{headers}\r\n\r\n"
    )
    part = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a.jpg"\r\n\r\n'
    piece = bytes(2**16)
    chunked = "chunked" in headers

    def framed(data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if chunked else data

    sent = 0
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(start.encode() + framed(part))
        connection.settimeout(0.0)
        answer = b""
        deadline = time.monotonic() + 60
        rest = framed(piece)
        while sent < GIB and not answer.endswith(b"}"):
            assert time.monotonic() < deadline
            with contextlib.suppress(BlockingIOError):
                answer += connection.recv(65536)
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                done = connection.send(rest)
                sent += done
                rest = rest[done:] or framed(piece)
    return answer, sent


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to see its memory")
def test_a_gigabyte_is_cut_off_early_and_not_kept(home: Home) -> None:
    with served(home / "model.solar", "--rate", 0, fresh=True) as (process, host, port):
        ask(host, port, "/api/v1/info")  # all is loaded
        before = memory(process.pid)
        for headers in (f"Content-Length: {GIB}", "Transfer-Encoding: chunked"):
            answer, sent = post_endless(host, port, headers)
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"].startswith("The request")
            assert sent < GIB / 8
        assert memory(process.pid) - before < 100 * 2**20
        assert ask(host, port, "/healthz") == {"status": "ok"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly(home: Home, number: signal.Signals) -> None:
    with served(home / "model.solar") as (process, host, port):
        assert ask(host, port, "/api/v1/info")["photos"] == PHOTOS
        process.send_signal(number)
        _, complaints = process.communicate(timeout=30)
        assert process.returncode == 0
        assert complaints == ""


def test_a_port_that_is_taken_is_one_sentence(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = solar("serve", home / "model.solar", "--port", port, expect=2)
    assert "choose another --port" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "is not an index" in solar("serve", home / "photos", expect=2).stderr


def test_a_collection_of_milvus_is_served_like_a_folder(home: Home, tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason='pip install "solar-retrieval[milvus]"')
    from solar.index import Index

    address = f"milvus://{tmp_path}/photos.db?collection=holidays"
    with Index.open(home / "model.solar") as index:
        index.copy(address).close()
    with served(address, "--rate", 0) as (_, host, port):
        assert ask(host, port, "/api/v1/info")["name"] == "holidays"
        found = ask(host, port, "/api/v1/search", {"photo": "3", "k": 5})
        best = found["hits"][0]["id"]
        assert best != "3"
        matched = ask(host, port, "/api/v1/matches", {"a": "3", "b": best})
        assert matched["keypoints"][0] > 0


def test_the_demo_serves_its_sample_where_that_is_wanted(tmp_path: Path) -> None:
    sample = ("--landmarks", 2, "--views", 2, "-o", tmp_path)
    with running("demo", "--serve", *sample) as (_, host, port):
        assert ask(host, port, "/api/v1/info")["photos"] == 4


def test_a_foreign_index_is_served_once_its_folders_are_confirmed(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solar.index import Index

    moved = tmp_path / "home" / "sent.solar"  # beside what it names: that proves nothing
    moved.parent.mkdir()
    shutil.copytree(home / "photos", tmp_path / "home" / "private")
    with Index.open(home / "model.solar") as index, monkeypatch.context() as elsewhere:
        elsewhere.setenv("SOLAR_CACHE", str(tmp_path / "theirs"))
        with index.copy(moved) as copied:
            relocate(copied, tmp_path / "home" / "private")
    refused = solar("serve", moved, "--port", 0, expect=2)
    assert refused.stderr.count("\n") == 1
    option = ("--allow-root", tmp_path / "home" / "private")
    assert " ".join(map(str, option)) in refused.stderr
    with served(moved, *option) as (_, host, port):
        [photo] = ask(host, port, "/api/v1/photos?limit=1")["photos"]
        assert ask_bytes(host, port, photo["thumbnail"]).startswith(b"\xff\xd8")
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)
    serve(str(moved), port=0)  # it is remembered
    with pytest.raises(SolarError, match="roots="):
        serve(str(moved.rename(tmp_path / "other.solar")), port=0)
    serve(str(tmp_path / "other.solar"), port=0, photos=home / "photos")


def test_photos_that_are_not_at_hand_are_told_of(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solar.images import Roots
    from solar.index import Index

    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)
    gone = Roots.at(tmp_path / "gone")
    for name, roots in (("none", None), ("lost", gone)):
        Index.create(tmp_path / f"{name}.solar", [[1.0, 0.0]], ["a.jpg"], roots=roots).close()

    def sentences(index: Path, **options: Any) -> list[str]:
        said: list[str] = []
        serve(str(index), port=0, say=said.append, **options)
        return said[1:-1]

    [told] = sentences(tmp_path / "none.solar")
    assert told == (
        "The photos of none cannot be read (the index does not know their folder): pictures, "
        "matching and verification need them; name their folder with `photos=`."
    )
    [told] = sentences(tmp_path / "lost.solar")
    assert f"(there is no {gone})" in told
    assert sentences(tmp_path / "lost.solar", photos=home / "photos") == []
    assert sentences(home / "model.solar") == []


def test_connections_are_limited(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    def run(server: Any, sockets: Any) -> None:
        ran.extend((server.config, sockets[0].proto))

    monkeypatch.setattr("uvicorn.Server.run", run)
    serve(str(home / "model.solar"), port=0)
    config, protocol = ran
    assert protocol == socket.IPPROTO_TCP  # or asyncio waits 40 ms with half of an answer
    assert config.limit_concurrency + config.backlog < 1024


def test_an_address_gives_the_name_and_no_password() -> None:
    assert collection_name("rome/photos.solar") == "photos"
    assert collection_name("milvus://me:secret@host:19530/photos?index=HNSW") == "photos"


def test_strangers_may_not_write() -> None:
    check_exposure("127.0.0.1", WebSettings(writable=True))
    check_exposure("0.0.0.0", WebSettings())
    check_exposure("0.0.0.0", WebSettings(writable=True, token="long enough"))
    with pytest.raises(SolarError, match="`token=`"):
        check_exposure("0.0.0.0", WebSettings(writable=True))
    with pytest.raises(SolarError, match="8 characters"):
        check_exposure("127.0.0.1", WebSettings(token="short"))


def test_a_model_to_compare_with_describes_the_photos_once(home: Home, tmp_path: Path) -> None:
    from solar.index import Index

    with Index.open(home / "model.solar") as index, index.copy(tmp_path / "a.solar") as copied:
        model = str(home / "other.safetensors")
        for _ in range(2):
            name, made = comparison(copied, WebSettings(), model)
            with made:
                assert (name, len(made)) == ("other", PHOTOS)
        name, made = comparison(copied, WebSettings(), str(home / "other.solar"))
        made.close()
        assert name == "other"
    assert (tmp_path / "a.other.solar").is_dir()


def test_a_model_to_compare_with_calls_photos_of_several_roots_the_same(
    home: Home, tmp_path: Path
) -> None:
    from solar.index.add import add
    from solar.index.build import build

    for seed, folder in enumerate(("a", "b")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.jpg").write_bytes(photo(seed))
    build(tmp_path / "a", tmp_path / "i.solar", model=home / "model.safetensors").close()
    (tmp_path / "a" / "later.jpg").write_bytes(photo(5))  # which the index does not have
    with add([tmp_path / "b"], tmp_path / "i.solar").index as index:
        _, made = comparison(index, WebSettings(), str(home / "other.safetensors"))
        with made:
            assert {*made.engine.stamps()} == {"1.jpg", "b//1.jpg"}


def test_below_a_path_everything_is_there_with_and_without_it(open_app: Open) -> None:
    app = open_app(root_path="/mine")
    assert app.get("/mine/healthz").json() == app.get("/healthz").json() == {"status": "ok"}
    moved = app.get("/mine", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (308, "/mine/")
    listed = app.get("/mine/api/v1/photos?limit=1").json()["photos"][0]
    assert listed["thumbnail"].startswith("/mine/api/v1/photos/")
    assert app.get(listed["thumbnail"]).status_code == 200
    assert app.get("/minefield").status_code == 404
    assert app.get("/mine/api/v1/openapi.json").json()["servers"] == [{"url": "/mine"}]


def test_the_page_may_be_asked_for_without_its_body(client: TestClient) -> None:
    answer = client.head("/")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/html")


def test_a_proxy_does_not_open_a_collection_to_everybody() -> None:
    behind = {"writable": True, "proxies": ("127.0.0.1",)}
    check_exposure("127.0.0.1", WebSettings(token="long enough", **behind))
    with pytest.raises(SolarError, match=r"proxy.*`token=`"):
        check_exposure("127.0.0.1", WebSettings(**behind))


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (
            ("--root-path", "photos"),
            "--root-path photos is not a path, or is used by the app itself",
        ),
        (("--root-path", "/a b"), "--root-path /a b is not a path"),
        (("--root-path", "/api"), "--root-path /api is not a path"),
        (("--trusted-proxy", "nginx"), "write an address like 127.0.0.1, or a network like"),
        (("--tiles", "https://a.b/{z}/{x}.png", "--tiles-attribution", "c"), "--tiles https"),
        (("--tiles", "https://a.b/{z}/{x}/{y}.png"), "--tiles-attribution"),
        (("--tiles-attribution", "c"), "--tiles"),
    ],
)
def test_addresses_that_are_none(home: Home, option: tuple[str, str], sentence: str) -> None:
    assert sentence in solar("serve", home / "model.solar", *option, expect=2).stderr
