"""Fetch one published file: mirrors, resume, hash, one download at a time.

Three environment variables steer it:

* ``SOLAR_MIRRORS``: base addresses (separated by spaces or commas) tried before the published
  ones, as base + "/" + file name;
* ``SOLAR_OFFLINE``: set to 1, nothing is ever downloaded;
* ``SOLAR_CACHE``: read by `solar.files.cache_directory`, the folder that weights go to.
"""

import json
import os
import re
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib import error, parse, request

from solar import __version__
from solar.errors import SolarError
from solar.files import (
    beside,
    digest_note,
    file_digest,
    locked,
    noted_digest,
    reading,
    replacing,
    sync_folder,
)

_ATTEMPTS = 4  # per mirror, counted anew after an attempt that brought a megabyte or more
_PAUSE = 0.5  # seconds before the second attempt, doubled for each one after it
_PIECE = 1 << 20
_TIMEOUT = 30.0  # seconds without a connection, or without a byte
_WINDOW, _LEAST = 10.0, 1024  # a mirror is left that brings fewer bytes per second for so long
_GZIP = b"\x1f\x8b"
_PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers worth asking again for

Report = Callable[[int, "int | None"], None]
"""Called with the bytes that have arrived and their total (None: unknown)."""


class MirrorError(Exception):
    """This mirror does not have the file; the message says why."""


class DroppedError(Exception):
    """The connection was lost; asking the same mirror again may help."""


class PartRefusedError(DroppedError):
    """The server has no such part of the file."""


@dataclass(frozen=True)
class Announced:
    """A server's headers about the whole file."""

    total: int | None  # bytes; None: unknown
    version: str  # changes with the file; "" where no header surely does


@dataclass(frozen=True)
class _Job:
    urls: Sequence[str]
    destination: Path
    sha256: str | None  # or its first digits
    name: str  # on the user's mirrors
    report: Report = lambda done, total: None

    @property
    def expected(self) -> str | None:
        """The digest that the file must have: the publisher's, or that of the first download."""
        return self.sha256 or noted_digest(self.destination)

    @property
    def part(self) -> Path:
        return beside(self.destination, ".part")

    @property
    def origin(self) -> Path:
        """The address and version that the part came from, to resume safely without a hash."""
        return beside(self.destination, ".part.json")

    @property
    def candidates(self) -> list[str]:
        """The user's mirrors, then the published addresses."""
        bases = re.split(r"[\s,]+", os.environ.get("SOLAR_MIRRORS", ""))
        mirrors = [f"{base.rstrip('/')}/{parse.quote(self.name)}" for base in bases if base]
        return list(dict.fromkeys([*mirrors, *self.urls]))

    def arrived(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.origin.unlink(missing_ok=True)

    def failure(self, reason: str, remedy: str) -> SolarError:
        hosts = ", ".join(dict.fromkeys(address(url)[1] for url in self.candidates))
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
    name: str = "",
) -> Path:
    """Download a file, unless it is already there.

    Args:
        urls: http or https addresses of the same file, the preferred one first.
        destination: The file. Bytes are collected in ``<destination>.part``, which a later call
            continues.
        sha256: Hex digest, or its first digits. None when the publisher gives none: the digest of
            the first download is then kept in ``<destination>.sha256`` and demanded of later ones.
        progress: Draw a bar on standard error, if that is a terminal.
        elsewhere: The remedy for a folder that is full or cannot be written to.
        name: Its path on the user's mirrors. Default: the name of `destination`.

    Raises:
        SolarError: No mirror has the file, there is no room for it, or the file already there has
            another hash.
    """
    destination = Path(destination)
    if destination.is_file():
        return checked(destination, sha256)
    job = _Job(urls, destination, sha256, name or destination.name)
    if os.environ.get("SOLAR_OFFLINE", "0") not in ("", "0"):
        raise job.failure("SOLAR_OFFLINE is set", "unset SOLAR_OFFLINE")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with locked(beside(destination, ".lock")):
            if destination.is_file():  # another process has fetched it
                return checked(destination, sha256)
            with bar(destination.name, shown=progress) as report:
                _fetch_from_any(replace(job, report=report))
    except OSError as problem:
        raise SolarError(
            f"Could not write {destination}: {problem.strerror or problem}; free some space "
            f"or {elsewhere}."
        ) from problem
    return destination


def checked(path: Path, sha256: str | None, *, bundled: bool = False) -> Path:
    """The path of an existing file, if its hash is right or unknown; else a SolarError.

    `sha256` may be the first digits; None stands for the digest noted at its download. `bundled`
    files came with solar.
    """
    expected = sha256 or noted_digest(path)
    if expected is None:
        return path
    with reading(path):
        digest = file_digest(path)
    if not digest.startswith(expected.lower()):
        remedy = "install solar again" if bundled else "delete it to download it again"
        raise SolarError(f"{path} has {_mismatch(digest, expected, path)}; {remedy}.")
    return path


def _fetch_from_any(job: _Job) -> None:
    reason = "no address is known for it"
    for url in job.candidates:
        try:
            return _fetch_from(url, job)
        except MirrorError as problem:
            reason = str(problem)
    raise job.failure(reason, "set SOLAR_MIRRORS to a mirror that has it")


def _fetch_from(url: str, job: _Job) -> None:
    """Download from one mirror, check, and move into place."""
    inherited = job.arrived() > 0
    _download(url, job)
    try:
        _accept(job)
    except MirrorError:
        if not inherited:
            raise
        # The inherited bytes may be at fault: start again.
        _download(url, job)
        _accept(job)


def _accept(job: _Job) -> None:
    """Move a complete part into place if its hash or its content is right, else delete it."""
    try:
        digest = file_digest(job.part)
        if job.expected is None:
            _check_content(job.part, job.destination.name)
    except MirrorError:
        job.discard()
        raise
    if job.expected is None:
        with replacing(digest_note(job.destination), complaint=None) as note:
            note.write_text(f"{digest}  {job.destination.name}\n")
    elif not digest.startswith(job.expected.lower()):
        job.discard()
        raise MirrorError(f"the file there has {_mismatch(digest, job.expected, job.destination)}")
    job.part.replace(job.destination)
    job.origin.unlink(missing_ok=True)
    sync_folder(job.destination.parent)


def _check_content(part: Path, name: str) -> None:
    """Without a hash, refuse what cannot be the whole of a file of this name."""
    with part.open("rb") as file:
        head = file.read(512)
        file.seek(max(0, part.stat().st_size - 1))
        last = file.read()

    def is_pickled() -> bool:
        return head.startswith(b"\x80") or zipfile.is_zipfile(part)

    whole: dict[str, Callable[[], bool]] = {
        ".safetensors": lambda: _is_safetensors(part),
        ".pth": is_pickled,
        ".pt": is_pickled,
        ".pkl": lambda: head.startswith((b"\x80", b"(")) and last == b".",
        ".zip": lambda: zipfile.is_zipfile(part),
        ".tar": lambda: head[257:262] == b"ustar",
        ".tgz": lambda: head.startswith(_GZIP),
        ".gz": lambda: head.startswith(_GZIP),
    }
    suffix = Path(name).suffix.lower()
    if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise MirrorError("the server sent a web page instead of the file")
    if head.startswith(_GZIP) and suffix not in (".gz", ".tgz"):
        raise MirrorError("the server compressed the file on the way")
    if not whole.get(suffix, lambda: True)():
        raise MirrorError(f"what the server sent is not a complete {suffix} file")


def _is_safetensors(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np"):  # compares the length with the header
            return True
    except SafetensorError:
        return False


def _download(url: str, job: _Job) -> None:
    """Complete the part file from one mirror, going on after dropped connections."""
    failures, furthest = 0, job.arrived()
    while True:
        try:
            return _transfer(url, job)
        except DroppedError as problem:
            failures += 1
            if job.arrived() >= furthest + _PIECE:
                failures, furthest = 1, job.arrived()
            if failures == _ATTEMPTS:
                raise MirrorError(str(problem)) from problem
            time.sleep(_PAUSE * 2 ** (failures - 1))


def _transfer(url: str, job: _Job) -> None:
    headers, start = _headers(url, job)
    try:
        response = ask(url, headers)
    except PartRefusedError:  # the part is not a beginning of the file
        job.discard()
        raise
    with response:
        said = announced(response)
        if not _continues(response, start, said, job):
            start = 0
        if job.expected is None:
            _check_can_be_judged(response, said)
        with job.part.open("ab" if start else "wb") as part:
            if not start:
                with replacing(job.origin, durable=False, complaint=None) as note:
                    note.write_text(json.dumps({"url": url, **asdict(said)}))
            _copy(response, part, start, said.total, job.report)
            os.fsync(part.fileno())


def _headers(url: str, job: _Job) -> tuple[dict[str, str], int]:
    """Request headers, and the byte that they resume from (0: the whole file)."""
    start, origin = job.arrived(), _read_origin(job)
    version = str(origin.get("version") or "") if origin.get("url") == url else ""
    if not start or (job.expected is None and not version):  # nothing would tell a mixture
        return {}, 0
    return {"Range": f"bytes={start}-", **({"If-Range": version} if version else {})}, start


def _check_can_be_judged(response: HTTPResponse, said: Announced) -> None:
    """Without a hash, refuse answers that cannot be known to be the whole file."""
    if response.headers.get_content_type() == "text/html":
        raise MirrorError("the server sent a web page instead of the file")
    if said.total is None and not response.chunked:
        raise MirrorError("the server did not say how long the file is")


def _continues(response: HTTPResponse, start: int, said: Announced, job: _Job) -> bool:
    """Whether the answer holds exactly the bytes that are missing."""
    if response.status != 206:
        return False
    part, origin = sent_part(response), _read_origin(job)
    # Not every server heeds If-Range.
    same_file = job.expected is not None or (
        said.version in ("", origin.get("version"))
        and (None in (said.total, origin.get("total")) or said.total == origin["total"])
    )
    if part and int(part[1]) == start and (same_file or not start):
        return True
    job.discard()
    raise DroppedError("the server resumed at the wrong position, or with another file")


def _copy(
    response: HTTPResponse, part: IO[bytes], done: int, total: int | None, report: Report
) -> None:
    """Write the body to the part file; `total` is the size of the whole file."""
    since, before = time.monotonic(), done
    while total is None or done < total:
        report(done, total)
        if (now := time.monotonic()) >= since + _WINDOW:
            if done - before < _LEAST * _WINDOW:
                raise MirrorError(f"it sent only {done - before:,} bytes in {now - since:.0f} s")
            since, before = now, done
        try:
            # read1 hands over what is there, so that a later drop loses nothing.
            piece = response.read1(_PIECE if total is None else min(_PIECE, total - done))
        except (OSError, HTTPException) as problem:
            raise DroppedError(plain(problem)) from problem
        if not piece:
            break
        part.write(piece)
        part.flush()  # so that it survives a kill
        done += len(piece)
    report(done, total)
    if total is not None and done < total:
        raise DroppedError(f"the connection was dropped after {done:,} of {total:,} bytes")


def _read_origin(job: _Job) -> dict[str, Any]:
    try:
        origin = json.loads(job.origin.read_text())
    except (OSError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}


def _mismatch(digest: str, expected: str, destination: Path) -> str:
    note = digest_note(destination)
    noted = f" (noted in {note.name})" if note.is_file() else ""
    return f"sha256 {digest[:12]}… instead of {expected[:12]}…{noted}"


# One request, by http only


def ask(url: str, headers: dict[str, str]) -> HTTPResponse:
    """Ask a mirror for a file; a DroppedError if the failure may pass, else a MirrorError."""
    if address(url)[0] not in ("http", "https"):
        raise MirrorError(f"{url} is not an http or https address")
    usual = {"User-Agent": f"solar/{__version__}", "Accept-Encoding": "identity"}
    try:
        asked = request.Request(url, headers={**usual, **headers})
        response: HTTPResponse = request.urlopen(asked, timeout=_TIMEOUT)
    except error.HTTPError as problem:
        with problem:
            if problem.code == 416:
                raise PartRefusedError("the server refused to resume a download") from problem
            reason = f"the server answered {problem.code} {problem.reason}".strip()
        raise (DroppedError if problem.code in _PASSING else MirrorError)(reason) from problem
    except error.URLError as problem:
        raise MirrorError(plain(problem.reason)) from problem
    except (OSError, HTTPException) as problem:
        raise DroppedError(plain(problem)) from problem
    except ValueError as problem:  # an address that cannot be sent
        raise MirrorError(plain(problem)) from problem
    return response


def announced(response: HTTPResponse) -> Announced:
    """The headers of an answer, whose body has not been read yet."""
    tag = response.headers.get("ETag", "")
    # A weak tag promises the same meaning, not the same bytes.
    version = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
    total = response.length  # None for a body in chunks, which mark their end
    if response.status == 206:
        total = int(part[3]) if (part := sent_part(response)) and part[3].isdecimal() else None
    return Announced(total, version)


def sent_part(response: HTTPResponse) -> re.Match[str] | None:
    """First byte, last byte and size of the file ("*": unknown), where a part of it is sent."""
    said = response.headers.get("Content-Range", "")
    return re.match(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", said)


def address(url: str) -> tuple[str, str]:
    """Scheme and host. Not netloc: a mirror's address may carry a password."""
    try:
        parts = parse.urlsplit(url)
        return parts.scheme, parts.hostname or url
    except ValueError:
        return "", url


def plain(problem: object) -> str:
    """An exception as part of a sentence, without errno numbers and full stop."""
    if isinstance(problem, TimeoutError):
        return f"no answer within {_TIMEOUT:g} seconds"
    text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return str(text).rstrip(".")


# Progress


@contextmanager
def bar(name: str, *, shown: bool) -> Iterator[Report]:
    """A progress bar over bytes on standard error, if that is a terminal."""
    if not shown:
        yield lambda done, total: None
        return
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    usual = rich.Progress.get_default_columns()
    columns = (*usual, rich.DownloadColumn(), rich.TransferSpeedColumn())
    with rich.Progress(*columns, console=console, disable=not console.is_terminal) as drawn:

        def report(done: int, total: int | None) -> None:
            # Added late: bytes of an earlier run must not count as speed.
            if not drawn.tasks:
                drawn.add_task(name, total=total, completed=done)
            drawn.update(drawn.tasks[0].id, completed=done, total=total)

        yield report
