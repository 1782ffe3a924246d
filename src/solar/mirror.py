"""One request to a mirror, by http only, and what the server says of the file."""

import re
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from urllib import error, parse, request

from solar import __version__

_TIMEOUT = 30.0  # seconds without a connection, or without a byte
_WINDOW = 30.0  # seconds of waiting for bytes, after each of which a mirror is judged
_SLOWEST = 1024  # bytes per second: a mirror that brings fewer is given up
_PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers worth asking again for


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


def ask(url: str, headers: dict[str, str]) -> HTTPResponse:
    """Ask a mirror for a file, telling failures that may pass from those that will not.

    Args:
        url: An http or https address.
        headers: What to send beside the usual ones.

    Raises:
        MirrorError: There is no use in asking again.
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
    return Announced(total, version)


def sent_part(response: HTTPResponse) -> re.Match[str] | None:
    """First byte, last byte and size of the file ("*": unknown), where a part of it is sent."""
    said = response.headers.get("Content-Range", "")
    return re.match(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", said)


class Pace:
    """Gives a mirror up that brings too few bytes in the time spent waiting for it."""

    def __init__(self) -> None:
        self._waited, self._brought = 0.0, 0

    def add(self, seconds: float, count: int) -> None:
        """Count bytes that came after waiting; a MirrorError if they are too few."""
        self._waited += seconds
        self._brought += count
        if self._waited >= _WINDOW:
            if self._brought < _SLOWEST * self._waited:
                raise MirrorError(f"the server sends less than {_SLOWEST / 1024:g} KiB per second")
            self._waited, self._brought = 0.0, 0


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
