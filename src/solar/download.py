"""Fetch one published file: mirrors, resume, hash, one download at a time.

Three environment variables steer it:

* ``SOLAR_MIRRORS``: base addresses (separated by spaces or commas) tried before the published
  ones, as base + "/" + file name;
* ``SOLAR_OFFLINE``: set to 1, nothing is ever downloaded;
* ``SOLAR_CACHE``: read by :mod:`solar.models.zoo`, the folder that weights go to.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO
from urllib import error, parse, request

from solar import __version__
from solar.errors import SolarError
from solar.files import beside, digest_note, file_digest, locked, noted_digest

_TIMEOUT = 30.0  # seconds without a connection, or without a byte
_ATTEMPTS = 4  # per mirror, counted anew whenever an attempt got a good piece further
_PAUSE = 0.5  # seconds before the second attempt, doubled for each one after it
_PIECE = 1 << 20
_PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers worth asking again for

Report = Callable[[int, "int | None"], None]
"""Told the bytes that are here and the bytes there will be (None: the server did not say)."""


class _MirrorError(Exception):
    """This mirror will not give us the file; the message says why."""


class _DroppedError(Exception):
    """The connection was lost; asking the same mirror again may help."""


@dataclass(frozen=True)
class _Job:
    """One file on its way."""

    urls: Sequence[str]
    destination: Path
    sha256: str | None  # or its first digits
    elsewhere: str  # how to choose another folder, as part of a sentence
    report: Report = lambda done, total: None

    @property
    def expected(self) -> str | None:
        """The digest that the file must have: the publisher's, or that of the first download."""
        return self.sha256 or noted_digest(self.destination)

    @property
    def part(self) -> Path:
        """The bytes that have arrived so far."""
        return beside(self.destination, ".part")

    @property
    def origin(self) -> Path:
        """What those bytes are a part of: needed to go on safely when no hash will tell."""
        return beside(self.destination, ".part.json")

    @property
    def candidates(self) -> list[str]:
        """The user's mirrors, then the published addresses."""
        bases = re.split(r"[\s,]+", os.environ.get("SOLAR_MIRRORS", ""))
        name = parse.quote(self.destination.name)
        mirrors = [f"{base.rstrip('/')}/{name}" for base in bases if base]
        return list(dict.fromkeys([*mirrors, *self.urls]))

    def arrived(self) -> int:
        """Bytes of the file that are on disk."""
        return self.part.stat().st_size if self.part.exists() else 0

    def discard(self) -> None:
        """Forget what has arrived."""
        self.part.unlink(missing_ok=True)
        self.origin.unlink(missing_ok=True)

    def failure(self, reason: str, remedy: str) -> SolarError:
        """The one sentence for a file that could not be had."""
        hosts = ", ".join(dict.fromkeys(_address(url)[1] for url in self.candidates))
        by_hand = f"download it by hand from {self.urls[0]}" if self.urls else "find it elsewhere"
        return SolarError(
            f"Could not download {self.destination.name}{' from ' + hosts if hosts else ''}: "
            f"{reason}; {by_hand} and put it at {self.destination}, or {remedy}."
        )


def fetch(
    urls: Sequence[str],
    destination: Path,
    sha256: str | None,
    *,
    progress: bool = True,
    elsewhere: str = "set SOLAR_CACHE to another folder",
) -> Path:
    """Download a file, unless it is already there.

    Args:
        urls: http or https addresses of the same file, the preferred one first.
        destination: where the file goes; its folder is made if need be. Bytes are collected in
            ``<destination>.part``, which a later call continues.
        sha256: hex digest, or its first digits. None when the publisher gives none: the digest of
            the first download is then kept in ``<destination>.sha256`` and demanded of later ones.
        progress: draw a bar on standard error, if that is a terminal.
        elsewhere: what to do where the folder is full or cannot be written to.

    Returns:
        ``destination``, which holds the whole file with the right hash. A SolarError if no mirror
        has the file, there is no room for it, or the file already there has another hash.
    """
    destination = Path(destination)
    if destination.is_file():
        return _checked(destination, sha256)
    job = _Job(urls, destination, sha256, elsewhere)
    if os.environ.get("SOLAR_OFFLINE", "0") not in ("", "0"):
        raise job.failure("SOLAR_OFFLINE is set", "unset SOLAR_OFFLINE")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with locked(beside(destination, ".lock")):
            if destination.is_file():  # somebody else has fetched it while we waited
                return _checked(destination, sha256)
            with bar(destination.name, shown=progress) as report:
                _fetch_from_any(replace(job, report=report))
    except OSError as problem:
        raise SolarError(
            f"Could not write {destination}: {problem.strerror or problem}; "
            f"free some room or {elsewhere}."
        ) from problem
    return destination


def _fetch_from_any(job: _Job) -> None:
    """Try the mirrors in turn until one has delivered."""
    reason = "no address is known for it"
    for url in job.candidates:
        try:
            return _fetch_from(url, job)
        except _MirrorError as problem:
            reason = str(problem)
    raise job.failure(reason, "set SOLAR_MIRRORS to a mirror that has it")


def _fetch_from(url: str, job: _Job) -> None:
    """Download from one mirror, check, and move into place."""
    inherited = job.arrived() > 0
    _download(url, job)
    try:
        _accept(job)
    except _MirrorError:
        if not inherited:
            raise
        # The bytes we went on from may have been at fault, so this mirror deserves a clean start.
        _download(url, job)
        _accept(job)


def _accept(job: _Job) -> None:
    """Move a complete part into place if its hash is right, else delete it."""
    digest = file_digest(job.part)
    if job.expected is None:
        digest_note(job.destination).write_text(f"{digest}  {job.destination.name}\n")
    elif not digest.startswith(job.expected.lower()):
        job.discard()
        raise _MirrorError(f"the file there has {_mismatch(digest, job.expected, job.destination)}")
    job.part.replace(job.destination)
    job.origin.unlink(missing_ok=True)


def _download(url: str, job: _Job) -> None:
    """Complete the part file from one mirror, going on after dropped connections."""
    if _address(url)[0] not in ("http", "https"):
        raise _MirrorError(f"{url} is not an http or https address")
    failures, furthest = 0, job.arrived()
    while True:
        try:
            return _transfer(url, job)
        except _DroppedError as problem:
            failures += 1
            if job.arrived() >= furthest + _PIECE:
                failures, furthest = 1, job.arrived()
            if failures == _ATTEMPTS:
                raise _MirrorError(str(problem)) from problem
            time.sleep(_PAUSE * 2 ** (failures - 1))


def _transfer(url: str, job: _Job) -> None:
    """Make one request and write what it brings."""
    headers, start = _headers(url, job)
    with _open(url, headers, job) as response:
        if not _continues(response, start, job):
            start = 0
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else None
        if job.expected is None and response.headers.get_content_type() == "text/html":
            raise _MirrorError("the server sent a web page instead of the file")
        with job.part.open("ab" if start else "wb") as part:
            if total is not None:
                _check_room(job, total - start)
            if not start:
                _write_origin(url, response, total, job)
            _copy(response, part, start, total, job.report)
            os.fsync(part.fileno())


def _headers(url: str, job: _Job) -> tuple[dict[str, str], int]:
    """Request headers, and the byte that they ask to go on from (0: the whole file)."""
    headers = {"User-Agent": f"solar/{__version__}", "Accept-Encoding": "identity"}
    start, origin = job.arrived(), _read_origin(job)
    if not start or (job.expected is None and origin.get("url") != url):
        return headers, 0
    headers["Range"] = f"bytes={start}-"
    if origin.get("url") == url and origin.get("version"):
        headers["If-Range"] = str(origin["version"])
    return headers, start


def _opener() -> request.OpenerDirector:
    """An opener for http and https, through the user's proxy.

    Nothing in it can open file://, ftp:// or data:, whether such an address was given to us or a
    server redirects to it.
    """
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPRedirectHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _open(url: str, headers: dict[str, str], job: _Job) -> HTTPResponse:
    """Ask for the file, telling failures that may pass from those that will not."""
    try:
        asked = request.Request(url, headers=headers)
        response: HTTPResponse = _opener().open(asked, timeout=_TIMEOUT)
    except error.HTTPError as problem:
        with problem:
            if problem.code == 416:  # the part is not a beginning of the file
                job.discard()
                raise _DroppedError("the server refused to go on with a download") from problem
            reason = f"the server answered {problem.code} {problem.reason}".strip()
        raise (_DroppedError if problem.code in _PASSING else _MirrorError)(reason) from problem
    except error.URLError as problem:
        raise _MirrorError(_plain(problem.reason)) from problem
    except (OSError, HTTPException) as problem:
        raise _DroppedError(_plain(problem)) from problem
    return response


def _continues(response: HTTPResponse, start: int, job: _Job) -> bool:
    """Whether the answer holds exactly the bytes that are missing."""
    if response.status != 206:
        return False
    said = re.match(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    total = _read_origin(job).get("total")
    same_file = job.expected is not None or total is None or (said and said[2] == str(total))
    if said and int(said[1]) == start and same_file:
        return True
    job.discard()
    raise _DroppedError("the server went on at another place than asked")


def _copy(
    response: HTTPResponse, part: IO[bytes], done: int, total: int | None, report: Report
) -> None:
    """Write the body to the part file; `total` is the size of the whole file."""
    while total is None or done < total:
        report(done, total)
        try:
            # read1 hands over what is there, so that a later drop loses nothing.
            piece = response.read1(_PIECE if total is None else min(_PIECE, total - done))
        except (OSError, HTTPException) as problem:
            raise _DroppedError(_plain(problem)) from problem
        if not piece:
            break
        part.write(piece)
        part.flush()  # so that it survives a kill
        done += len(piece)
    report(done, total)
    if total is not None and done < total:
        raise _DroppedError(f"the connection was dropped after {done:,} of {total:,} bytes")


def _check_room(job: _Job, needed: int) -> None:
    folder = job.destination.parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise SolarError(
            f"{job.destination.name} needs {needed / 1e6:,.1f} MB more but only "
            f"{free / 1e6:,.1f} MB are free in {folder}; free some room or {job.elsewhere}."
        )


def _write_origin(url: str, response: HTTPResponse, total: int | None, job: _Job) -> None:
    tag = response.headers.get("ETag", "")
    # A weak tag promises the same meaning, not the same bytes.
    version = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
    job.origin.write_text(json.dumps({"url": url, "version": version, "total": total}))


def _read_origin(job: _Job) -> dict[str, object]:
    try:
        origin = json.loads(job.origin.read_text())
    except (OSError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}


def _checked(path: Path, sha256: str | None) -> Path:
    """A file that is already there, if its hash is right or unknown."""
    expected = sha256 or noted_digest(path)
    if expected and not (digest := file_digest(path)).startswith(expected.lower()):
        raise SolarError(
            f"{path} has {_mismatch(digest, expected, path)}; delete it to download it again."
        )
    return path


def _mismatch(digest: str, expected: str, destination: Path) -> str:
    note = digest_note(destination)
    noted = f" (noted in {note.name})" if note.is_file() else ""
    return f"sha256 {digest[:12]}… instead of {expected[:12]}…{noted}"


def _address(url: str) -> tuple[str, str]:
    """Scheme and host. Not netloc: a mirror's address may carry a password."""
    try:
        parts = parse.urlsplit(url)
        return parts.scheme, parts.hostname or url
    except ValueError:
        return "", url


def _plain(problem: object) -> str:
    """An exception as part of a sentence, without errno numbers and full stop."""
    if isinstance(problem, TimeoutError):
        return f"no answer within {_TIMEOUT:g} seconds"
    text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return str(text).rstrip(".")


@contextmanager
def bar(name: str, *, shown: bool) -> Iterator[Report]:
    """A progress bar over bytes on standard error; it stays silent where that is no terminal."""
    if not shown:
        yield lambda done, total: None
        return
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, disable=not console.is_terminal) as drawn:

        def report(done: int, total: int | None) -> None:
            # Added late: bytes of an earlier run must not count as speed.
            if not drawn.tasks:
                drawn.add_task(name, total=total, completed=done)
            drawn.update(drawn.tasks[0].id, completed=done, total=total)

        yield report
