"""One request to a mirror: by http only, given up when it is too slow; and what the server says."""

import io
import re
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import new as new_hash
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
)
from typing import IO, Any
from urllib import error, parse, request

from solar import __version__

_TIMEOUT = 30.0  # seconds without a connection, or without a byte
_WINDOW = 30.0  # seconds of waiting for bytes, after each of which a mirror is judged
_SLOWEST = 1024  # bytes per second: a mirror that brings fewer is given up
_PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers worth asking again for
# What servers call them, the strongest first.
_DIGESTS = {"sha-512": "sha512", "sha-256": "sha256", "md5": "md5"}


class MirrorError(Exception):
    """This mirror will not give us the file; the message says why."""


class DroppedError(Exception):
    """The connection was lost; asking the same mirror again may help."""


class PartRefusedError(DroppedError):
    """The server has no such part of the file."""


@dataclass(frozen=True)
class Announced:
    """What a server says of the whole file that it sends, or sends a part of."""

    total: int | None  # bytes; None: it did not say
    version: str  # changes with the file; "" where the server gives nothing that surely does
    digest: tuple[str, str] | None  # hashlib's name of the algorithm, hexadecimal digits


def ask(url: str, headers: dict[str, str]) -> HTTPResponse:
    """Ask a mirror for a file, telling failures that may pass from those that will not.

    Args:
        url: An http or https address.
        headers: What to send beside the usual ones.

    Raises:
        MirrorError: There is no use in asking again. Reading the answer raises it as well, where
            the bytes come too slowly.
        DroppedError: There may be one.
    """
    if address(url)[0] not in ("http", "https"):
        raise MirrorError(f"{url} is not an http or https address")
    usual = {"User-Agent": f"solar/{__version__}", "Accept-Encoding": "identity"}
    try:
        asked = request.Request(url, headers={**usual, **headers})
        response: HTTPResponse = _opener().open(asked, timeout=_TIMEOUT)
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
    """What the server says of the file, from the headers of an answer that nobody has read yet."""
    tag = response.headers.get("ETag", "")
    # A weak tag promises the same meaning, not the same bytes.
    version = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
    total = response.length  # the announced one: None for a body in chunks, which tell their end
    if response.status == 206:
        total = int(part[3]) if (part := sent_part(response)) and part[3].isdecimal() else None
    return Announced(total, version, next(_digests(response), None))


def sent_part(response: HTTPResponse) -> re.Match[str] | None:
    """First byte, last byte and size of the file ("*": unknown), where a part of it is sent."""
    said = response.headers.get("Content-Range", "")
    return re.match(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", said)


def _digests(response: HTTPResponse) -> Iterator[tuple[str, str]]:
    """What the server says that the whole file's digests are, the strongest first."""
    headers = response.headers
    said = [*headers.get_all("Repr-Digest", ()), *headers.get_all("Digest", ())]
    if headers.get("X-Goog-Stored-Content-Encoding", "identity") == "identity":
        said += headers.get_all("X-Goog-Hash", ())
    if response.status == 200:  # of a part, it would be the part's
        said += [f"md5={value}" for value in headers.get_all("Content-MD5", ())]
    pairs = [item.strip().partition("=") for line in said for item in line.split(",")]
    for theirs, ours in _DIGESTS.items():
        for name, _, value in pairs:
            try:
                digest = b64decode(value.strip(": "), validate=True)
            except ValueError:
                continue
            if name.lower() == theirs and len(digest) == new_hash(ours).digest_size:
                yield ours, digest.hex()


class _Rated(io.RawIOBase):
    """A connection that ends in a MirrorError when waiting for it brings too little.

    All that arrives passes here, so headers and sizes of chunks may not trickle in either.
    """

    def __init__(self, connection: io.RawIOBase) -> None:
        self._connection = connection
        self._waited, self._brought = 0.0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        began = time.monotonic()
        count: int | None = self._connection.readinto(buffer)
        self._waited += time.monotonic() - began  # not the time that our disk takes
        self._brought += count or 0
        if count and self._waited >= _WINDOW:
            if self._brought < _SLOWEST * self._waited:
                raise MirrorError(f"the server sends less than {_SLOWEST / 1024:g} KiB per second")
            self._waited, self._brought = 0.0, 0
        return count

    def close(self) -> None:
        self._connection.close()
        super().close()


class _RatedResponse(HTTPResponse):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fp = io.BufferedReader(_Rated(self.fp.detach()))


class _Connection(HTTPConnection):
    response_class = _RatedResponse


class _SecureConnection(HTTPSConnection):
    response_class = _RatedResponse


class _Handler(request.HTTPHandler):
    def http_open(self, req: request.Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _SecureHandler(request.HTTPSHandler):
    def https_open(self, req: request.Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _Redirects(request.HTTPRedirectHandler):
    """Follows redirects without reading what comes with them: it need not end."""

    def http_error_302(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> Any:
        fp.close()
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _opener() -> request.OpenerDirector:
    """An opener for http and https, through the user's proxy.

    Nothing in it can open file://, ftp:// or data:, whether such an address was given to us or a
    server redirects to it.
    """
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        _Handler,
        _SecureHandler,
        _Redirects,
        request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


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
