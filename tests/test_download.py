from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import re
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import filelock
import numpy as np
import pytest
from safetensors.numpy import save
from support.file_server import FileServer, serve

from solar import download
from solar.download import checked, fetch
from solar.errors import SolarError

CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
HALF = len(CONTENT) // 2


@pytest.fixture(autouse=True)
def quiet_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between attempts, none of the user's settings, no proxy before this machine."""
    monkeypatch.setattr(download, "_PAUSE", 0)
    for name in ("SOLAR_MIRRORS", "SOLAR_OFFLINE", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serve() as running:
        yield running


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "net.bin"


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/net.bin"


def part_of(destination: Path) -> Path:
    return destination.with_name(destination.name + ".part")


def leave_part(destination: Path, content: bytes) -> None:
    destination.parent.mkdir(parents=True)
    part_of(destination).write_bytes(content)


def failure(*args: object) -> str:
    """The sentence that fetch ends with."""
    with pytest.raises(SolarError) as caught:
        fetch(*args)  # type: ignore[arg-type]
    return str(caught.value)


class TestDownload:
    @pytest.mark.parametrize("sha256", [DIGEST, DIGEST[:7], DIGEST.upper()])
    def test_file_with_the_right_hash_is_kept(
        self, server: FileServer, destination: Path, sha256: str
    ) -> None:
        assert fetch([server.add("net.bin", CONTENT)], destination, sha256) == destination
        assert destination.read_bytes() == CONTENT

    def test_leaves_no_parts_behind(self, server: FileServer, destination: Path) -> None:
        fetch([server.add("net.bin", CONTENT)], destination, DIGEST)
        assert list(destination.parent.glob("*.part*")) == []

    def test_file_that_is_here_is_not_downloaded(
        self, server: FileServer, destination: Path
    ) -> None:
        url = server.add("net.bin", CONTENT)
        for _ in range(2):
            fetch([url], destination, DIGEST)
        assert len(server.requests) == 1

    def test_wrong_file_that_is_here_is_named_and_kept(
        self, server: FileServer, destination: Path
    ) -> None:
        destination.parent.mkdir()
        destination.write_bytes(b"other")
        sentence = failure([server.add("net.bin", CONTENT)], destination, DIGEST)
        assert str(destination) in sentence
        assert "delete it" in sentence
        assert destination.read_bytes() == b"other"

    def test_redirect_is_followed(self, server: FileServer, destination: Path) -> None:
        target = server.add("target", CONTENT)
        fetch([server.add("net.bin", redirect=target)], destination, DIGEST)
        assert destination.read_bytes() == CONTENT


class TestResume:
    def test_dropped_connection_goes_on_where_it_was(
        self, server: FileServer, destination: Path
    ) -> None:
        url = server.add("net.bin", CONTENT, sends=[HALF])
        fetch([url], destination, DIGEST)
        assert server.ranges() == [None, f"bytes={HALF}-"]
        assert destination.read_bytes() == CONTENT

    def test_stalled_connection_goes_on_where_it_was(
        self, server: FileServer, destination: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download, "_TIMEOUT", 0.3)
        url = server.add("net.bin", CONTENT, sends=[HALF], hold=threading.Event())
        fetch([url], destination, DIGEST)
        assert server.ranges() == [None, f"bytes={HALF}-"]

    def test_a_mirror_that_only_dribbles_is_left_for_the_next(
        self, server: FileServer, destination: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download, "_WINDOW", 1.0)
        slow = server.add("slow.bin", CONTENT, dribbles=0.05)
        fetch([slow, server.add("net.bin", CONTENT)], destination, DIGEST)
        assert server.requests[-1][0] == "/net.bin"
        assert destination.read_bytes() == CONTENT

    def test_part_of_an_earlier_run_is_used(self, server: FileServer, destination: Path) -> None:
        leave_part(destination, CONTENT[:100])
        fetch([server.add("net.bin", CONTENT)], destination, DIGEST)
        assert server.ranges() == ["bytes=100-"]
        assert destination.read_bytes() == CONTENT

    def test_killed_download_goes_on_in_the_next_run(
        self, server: FileServer, destination: Path
    ) -> None:
        # No hash is known here, so this also tests that the part remembers what it is a part of.
        # 1000 bytes are fewer than a file buffers: they must have been flushed.
        url = server.add("net.bin", CONTENT, sends=[1000], hold=threading.Event())
        code = "import sys, pathlib; from solar.download import fetch;"
        code += "fetch([sys.argv[1]], pathlib.Path(sys.argv[2]), None)"
        child = subprocess.Popen([sys.executable, "-c", code, url, str(destination)])
        try:
            wait_for_size(part_of(destination), 1000)
        finally:
            child.kill()
            child.wait()
        fetch([url], destination, None)
        assert server.ranges() == [None, "bytes=1000-"]
        assert destination.read_bytes() == CONTENT

    def test_server_without_ranges_starts_over(self, server: FileServer, destination: Path) -> None:
        leave_part(destination, b"x" * 100)
        fetch([server.add("net.bin", CONTENT, ranges=False)], destination, DIGEST)
        assert destination.read_bytes() == CONTENT

    def test_part_longer_than_the_file_starts_over(
        self, server: FileServer, destination: Path
    ) -> None:
        leave_part(destination, CONTENT + b"more")
        fetch([server.add("net.bin", CONTENT)], destination, DIGEST)
        assert server.ranges() == [f"bytes={len(CONTENT) + 4}-", None]
        assert destination.read_bytes() == CONTENT

    def test_part_of_something_else_starts_over(
        self, server: FileServer, destination: Path
    ) -> None:
        leave_part(destination, b"x" * 100)
        fetch([server.add("net.bin", CONTENT)], destination, DIGEST)
        assert server.ranges() == ["bytes=100-", None]
        assert destination.read_bytes() == CONTENT

    def test_part_of_unknown_origin_is_not_used_without_a_hash(
        self, server: FileServer, destination: Path
    ) -> None:
        leave_part(destination, b"x" * 100)
        fetch([server.add("net.bin", CONTENT)], destination, None)
        assert destination.read_bytes() == CONTENT

    def test_file_replaced_between_two_attempts_is_not_mixed(
        self, server: FileServer, destination: Path
    ) -> None:
        url = server.add("net.bin", b"x" * len(CONTENT), sends=[100] * download._ATTEMPTS)
        failure([url], destination, None)
        server.add("net.bin", CONTENT, version='"two"')
        fetch([url], destination, None)
        assert destination.read_bytes() == CONTENT

    def test_gives_up_on_a_connection_that_always_drops(
        self, server: FileServer, destination: Path
    ) -> None:
        url = server.add("net.bin", CONTENT, ranges=False, sends=[HALF] * 100)
        assert "dropped" in failure([url], destination, DIGEST)
        assert len(server.requests) == download._ATTEMPTS

    def test_busy_server_is_asked_again(self, server: FileServer, destination: Path) -> None:
        assert "503" in failure([server.add("net.bin", status=503)], destination, DIGEST)
        assert len(server.requests) == download._ATTEMPTS


class TestMirrors:
    def test_missing_file_is_taken_from_the_next(
        self, server: FileServer, destination: Path
    ) -> None:
        fetch([f"{server.base}/gone", server.add("net.bin", CONTENT)], destination, DIGEST)
        assert [path for path, _ in server.requests] == ["/gone", "/net.bin"]

    def test_wrong_file_is_taken_from_the_next(self, server: FileServer, destination: Path) -> None:
        urls = [server.add("wrong", b"x" * len(CONTENT)), server.add("net.bin", CONTENT)]
        fetch(urls, destination, DIGEST)
        assert destination.read_bytes() == CONTENT

    def test_half_a_file_is_completed_by_the_next(
        self, server: FileServer, destination: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download, "_ATTEMPTS", 1)
        urls = [server.add("first", CONTENT, sends=[HALF]), server.add("second", CONTENT)]
        fetch(urls, destination, DIGEST)
        assert server.ranges() == [None, f"bytes={HALF}-"]

    def test_wrong_file_everywhere_leaves_nothing(
        self, server: FileServer, destination: Path
    ) -> None:
        sentence = failure([server.add("net.bin", b"wrong")], destination, DIGEST)
        assert hashlib.sha256(b"wrong").hexdigest()[:7] in sentence
        assert not destination.exists()
        assert not part_of(destination).exists()

    @pytest.mark.parametrize("separator", [" ", ",", ", "])
    def test_users_mirrors_come_first(
        self,
        server: FileServer,
        destination: Path,
        monkeypatch: pytest.MonkeyPatch,
        separator: str,
    ) -> None:
        bases = [f"{server.base}/a", f"{server.base}/b/"]
        monkeypatch.setenv("SOLAR_MIRRORS", separator.join(bases))
        fetch([server.add("published", CONTENT)], destination, DIGEST)
        assert [path for path, _ in server.requests] == ["/a/net.bin", "/b/net.bin", "/published"]


class TestUnpublishedHash:
    def test_first_digest_is_noted(self, server: FileServer, destination: Path) -> None:
        fetch([server.add("net.bin", CONTENT)], destination, None)
        note = destination.with_name("net.bin.sha256")
        assert note.read_text() == f"{DIGEST}  net.bin\n"

    def test_later_download_must_match_it(self, server: FileServer, destination: Path) -> None:
        url = server.add("net.bin", CONTENT)
        fetch([url], destination, None)
        destination.unlink()
        server.add("net.bin", b"replaced")
        assert "net.bin.sha256" in failure([url], destination, None)
        assert not destination.exists()

    def test_file_put_there_by_hand_is_taken(self, server: FileServer, destination: Path) -> None:
        destination.parent.mkdir()
        destination.write_bytes(b"by hand")
        fetch([server.add("net.bin", CONTENT)], destination, None)
        assert server.requests == []

    def test_web_page_is_not_taken_for_the_file(
        self, server: FileServer, destination: Path
    ) -> None:
        url = server.add("net.bin", b"<html>Please log in", content_type="text/html; charset=utf-8")
        assert "web page" in failure([url], destination, None)
        assert not destination.exists()


PORTAL = b"Please sign in to use this WiFi."  # 32 bytes, as text
TENSORS = save({"weight": np.arange(6, dtype=np.float32)})


def zipped(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, CONTENT)
    return file.getvalue()


WHOLE = {
    "net.safetensors": TENSORS,
    "net.pth": zipped("net/data.pkl"),
    "vectors.pt": zipped("vectors/data.pkl"),
    "truth.pkl": pickle.dumps({"photos": ["a.jpg"]}),
    "photos.zip": zipped("a.jpg"),
}


class TestContentWithoutAHash:
    """Nobody says which digest is right, so the content must at least be of its kind."""

    @pytest.mark.parametrize("name", WHOLE)
    def test_a_file_of_its_kind_is_kept(
        self, server: FileServer, tmp_path: Path, name: str
    ) -> None:
        fetch([server.add(name, WHOLE[name])], tmp_path / name, None)
        assert (tmp_path / name).read_bytes() == WHOLE[name]

    @pytest.mark.parametrize("name", [*WHOLE, "a.tar", "a.tgz", "a.tar.gz"])
    def test_the_page_of_a_network_that_wants_a_login_is_not(
        self, server: FileServer, tmp_path: Path, name: str
    ) -> None:
        assert "complete" in failure([server.add(name, PORTAL)], tmp_path / name, None)
        assert not (tmp_path / name).exists()
        assert not part_of(tmp_path / name).exists()

    @pytest.mark.parametrize("name", WHOLE)
    def test_a_server_that_announces_too_few_bytes_is_not_believed(
        self, server: FileServer, tmp_path: Path, name: str
    ) -> None:
        cut = server.add(f"cut/{name}", WHOLE[name], length=len(WHOLE[name]) - 5)
        fetch([cut, server.add(name, WHOLE[name])], tmp_path / name, None)
        assert (tmp_path / name).read_bytes() == WHOLE[name]

    def test_a_web_page_of_another_type_is_not_kept(
        self, server: FileServer, destination: Path
    ) -> None:
        url = server.add("net.bin", b"\n<!DOCTYPE html><html>Please sign in")
        assert "web page" in failure([url], destination, None)

    @pytest.mark.parametrize("known", [False, True])
    def test_compression_on_the_way_is_refused(
        self, server: FileServer, tmp_path: Path, known: bool
    ) -> None:
        packed = gzip.compress(TENSORS)
        url = server.add("net.safetensors", packed, headers={"Content-Encoding": "gzip"})
        digest = hashlib.sha256(TENSORS).hexdigest() if known else None
        assert ("sha256" if known else "compressed") in failure(
            [url], tmp_path / "net.safetensors", digest
        )
        assert sorted(path.name for path in tmp_path.iterdir()) == ["net.safetensors.lock"]

    def test_an_archive_that_is_compressed_itself_stays_so(
        self, server: FileServer, tmp_path: Path
    ) -> None:
        packed = gzip.compress(CONTENT)
        fetch([server.add("a.tar.gz", packed)], tmp_path / "a.tar.gz", None)
        assert (tmp_path / "a.tar.gz").read_bytes() == packed


def interrupted(server: FileServer, destination: Path, **behaviour: object) -> str:
    """Leave some bytes of a file that is replaced afterwards; returns its address."""
    sends = [100] * download._ATTEMPTS
    url = server.add("net.bin", b"x" * len(CONTENT), sends=sends, **behaviour)
    failure([url], destination, None)
    assert 0 < part_of(destination).stat().st_size < HALF
    return url


class TestWithoutAHash:
    """Nothing known of the file beforehand: what the server says must hold."""

    def test_a_part_of_a_part_is_not_the_whole(self, server: FileServer, destination: Path) -> None:
        url = server.add("net.bin", CONTENT, sends=[HALF], cap=3000)
        fetch([url], destination, None)
        assert destination.read_bytes() == CONTENT

    def test_a_file_of_unknown_length_is_refused(
        self, server: FileServer, destination: Path
    ) -> None:
        url = server.add("net.bin", CONTENT, sends=[HALF], framing="close")
        assert "did not say how long the file is" in failure([url], destination, None)
        assert not destination.exists()

    def test_chunks_tell_their_end(
        self, server: FileServer, destination: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(BaseHTTPRequestHandler, "protocol_version", "HTTP/1.1")
        options = {"framing": "chunked", "headers": {"Connection": "close"}, "ranges": False}
        url = server.add("net.bin", CONTENT, sends=[HALF] * download._ATTEMPTS, **options)
        assert "IncompleteRead" in failure([url], destination, None)
        server.add("net.bin", CONTENT, **options)
        fetch([url], destination, None)
        assert destination.read_bytes() == CONTENT

    @pytest.mark.parametrize("told", [{"ETag": ""}, {"ETag": 'W/"one"'}])
    def test_a_part_without_a_version_is_not_gone_on_with(
        self, server: FileServer, destination: Path, told: dict[str, str]
    ) -> None:
        url = interrupted(server, destination, headers=told)
        server.add("net.bin", CONTENT, headers=told)
        fetch([url], destination, None)
        assert destination.read_bytes() == CONTENT

    def test_a_date_is_a_version(self, server: FileServer, destination: Path) -> None:
        told = {"ETag": "", "Last-Modified": "Sun, 15 Nov 2026 10:00:00 GMT"}
        url = server.add("net.bin", CONTENT, sends=[100], headers=told, heeds=False)
        fetch([url], destination, None)
        assert server.requests[1][1]["if-range"] == told["Last-Modified"]
        assert server.ranges()[1] == "bytes=100-"
        assert destination.read_bytes() == CONTENT

    def test_a_server_that_ignores_versions_makes_no_mixture(
        self, server: FileServer, destination: Path
    ) -> None:
        url = interrupted(server, destination)
        server.add("net.bin", CONTENT, version='"two"', heeds=False)
        fetch([url], destination, None)
        assert destination.read_bytes() == CONTENT

    def test_a_note_that_is_no_text_is_named(self, server: FileServer, destination: Path) -> None:
        destination.parent.mkdir()
        destination.with_name("net.bin.sha256").write_bytes(b"\xff\xfe")
        url = server.add("net.bin", CONTENT)
        assert re.search(
            r"net\.bin\.sha256 is not text: delete it", failure([url], destination, None)
        )


def test_a_link_to_a_file_that_is_here_may_be_read(destination: Path, tmp_path: Path) -> None:
    destination.parent.mkdir()
    (tmp_path / "shared").write_bytes(CONTENT)
    destination.symlink_to(tmp_path / "shared")
    assert fetch([], destination, DIGEST) == destination


class TestFileThatIsHere:
    def test_a_noted_digest_counts(self, tmp_path: Path) -> None:
        path = tmp_path / "net.bin"
        path.write_bytes(CONTENT)
        assert checked(path, None) == path
        path.with_name("net.bin.sha256").write_text("0123456789  net.bin")
        with pytest.raises(SolarError, match=r"noted in net\.bin\.sha256"):
            checked(path, None)


class TestRefusals:
    @pytest.mark.parametrize("scheme", ["file", "ftp", "data"])
    def test_other_schemes(self, destination: Path, tmp_path: Path, scheme: str) -> None:
        (tmp_path / "secret").write_bytes(CONTENT)
        sentence = failure([f"{scheme}://{tmp_path}/secret"], destination, DIGEST)
        assert "not an http or https address" in sentence

    @pytest.mark.parametrize("scheme", ["file", "ftp"])
    def test_redirect_to_other_schemes(
        self, server: FileServer, destination: Path, tmp_path: Path, scheme: str
    ) -> None:
        (tmp_path / "secret").write_bytes(CONTENT)
        url = server.add("net.bin", redirect=f"{scheme}://{tmp_path}/secret")
        assert scheme in failure([url], destination, DIGEST)
        assert not destination.exists()

    def test_broken_address(self, destination: Path) -> None:
        assert "http://[" in failure(["http://["], destination, DIGEST)

    def test_folder_that_cannot_be_made(self, server: FileServer, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        url = server.add("net.bin", CONTENT)
        assert "Could not write" in failure([url], tmp_path / "file" / "net.bin", DIGEST)


class TestSentence:
    def test_unreachable(self, destination: Path, nobody: str) -> None:
        sentence = failure([nobody], destination, DIGEST)
        for named in ("127.0.0.1", "refused", nobody, str(destination), "SOLAR_MIRRORS"):
            assert named in sentence

    def test_offline(
        self, server: FileServer, destination: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_OFFLINE", "1")
        url = server.add("net.bin", CONTENT)
        sentence = failure([url], destination, DIGEST)
        for named in ("SOLAR_OFFLINE", url, str(destination)):
            assert named in sentence
        assert server.requests == []

    def test_offline_still_finds_a_file_that_is_here(
        self, destination: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_OFFLINE", "1")
        destination.parent.mkdir()
        destination.write_bytes(CONTENT)
        assert fetch([], destination, DIGEST) == destination

    def test_last_reason_of_several_mirrors(
        self, server: FileServer, destination: Path, nobody: str
    ) -> None:
        sentence = failure([nobody, f"{server.base}/gone"], destination, DIGEST)
        assert "404 Not Found" in sentence
        assert "refused" not in sentence

    def test_password_of_a_mirror_is_not_shown(
        self, destination: Path, monkeypatch: pytest.MonkeyPatch, nobody: str
    ) -> None:
        monkeypatch.setenv("SOLAR_MIRRORS", nobody.replace("http://", "http://me:hidden@"))
        assert "hidden" not in failure([nobody], destination, DIGEST)

    def test_no_address_at_all(self, destination: Path) -> None:
        assert "no address is known" in failure([], destination, DIGEST)


def test_two_downloads_of_one_file_make_one_request(
    server: FileServer, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_lock = threading.Semaphore(0)

    class Lock(filelock.FileLock):  # type: ignore[misc,valid-type]
        def acquire(self, *args: object, **options: object) -> object:
            at_the_lock.release()
            return super().acquire(*args, **options)

    monkeypatch.setattr(filelock, "FileLock", Lock)
    hold = threading.Event()
    url = server.add("net.bin", CONTENT, sends=[HALF], hold=hold)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch, [url], destination, DIGEST)
        assert server.asked.wait(10)
        second = pool.submit(fetch, [url], destination, DIGEST)
        for _ in range(2):
            assert at_the_lock.acquire(timeout=10)
        requests_while_waiting = len(server.requests)
        hold.set()
        assert first.result(20) == second.result(20) == destination
    assert requests_while_waiting == 1
    assert server.ranges() == [None, f"bytes={HALF}-"]


class TestProgress:
    def test_terminal_gets_a_bar(
        self,
        server: FileServer,
        destination: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "100")
        fetch([server.add("net.bin", CONTENT)], destination, DIGEST)
        captured = capsys.readouterr()
        assert "net.bin" in captured.err
        assert captured.out == ""

    def test_log_file_gets_none(
        self, server: FileServer, destination: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fetch([server.add("net.bin", CONTENT)], destination, DIGEST)
        assert capsys.readouterr() == ("", "")

    def test_none_when_not_wanted(
        self,
        server: FileServer,
        destination: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        fetch([server.add("net.bin", CONTENT)], destination, DIGEST, progress=False)
        assert capsys.readouterr().err == ""


def wait_for_size(path: Path, size: int) -> None:
    """Wait for bytes that another process writes: there is no event to wait for."""
    deadline = time.monotonic() + 20
    while not (path.exists() and path.stat().st_size >= size):
        assert time.monotonic() < deadline, "the download did not start"
        time.sleep(0.01)
