"""The ASGI layer around the app.

It refuses requests before their bodies are read, cuts off bodies that are too long or too slow,
adds security headers, and counts. Connections are left to uvicorn and a proxy.
"""

import asyncio
import errno
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

from starlette.datastructures import Headers, MutableHeaders

from solar.web.guard.access import Keys, check_host, check_origin
from solar.web.guard.rates import Rates, cost_of
from solar.web.monitoring import Metrics
from solar.web.problems import HIDDEN, WebError, refusal
from solar.web.settings import INDEXES, WebSettings, tile_origin

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:{tiles}; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Frame-Options": "DENY",
}

_JSON_BYTES = 64 * 1024
_FRAME = 64 * 1024  # what a multipart body holds besides its photos
_ADD_TIMES = 16  # photos of full size in one request to add some

# A body is waited for this long in all, and longer by a second for each kilobyte that has come.
_PATIENCE_SECONDS, _BYTES_PER_SECOND = 20.0, 1024
_DISCARDED_BYTES, _DISCARDED_SECONDS = 2**26, 10.0

# Requests that need --writable.
_CHANGES = re.compile(r"/api/v1/(photos(/remove|/restore)?|sync|albums/[^/]+/name)")

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}

log = logging.getLogger("solar.web")


def _headers(settings: WebSettings) -> dict[str, str]:
    """Headers of every answer: pictures come from here, and from the server of map tiles."""
    tiles = f" {tile_origin(settings.tiles)}" if settings.tiles else ""
    return {"Content-Security-Policy": _POLICY.format(tiles=tiles), **_HEADERS}


class Guard:
    """Checks, limits and counts requests; `rates` are shared by all indexes of a server."""

    def __init__(
        self, app: App, settings: WebSettings, keys: Keys, metrics: Metrics, rates: Rates
    ) -> None:
        self._app, self._settings, self._keys, self._metrics = app, settings, keys, metrics
        self._rates, self._headers = rates, _headers(settings)
        self._longest = {
            "/api/v1/queries": settings.max_upload_bytes + _FRAME,
            "/api/v1/photos": _ADD_TIMES * settings.max_upload_bytes + _FRAME,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        started, status, taken, patience = time.perf_counter(), 0, 0, _PATIENCE_SECONDS
        headers = Headers(scope=scope)
        more = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        # Without the path that the app is mounted at.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        longest = self._longest.get(path, _JSON_BYTES)

        async def limited() -> Message:
            nonlocal taken, more, patience
            if not more:  # what comes now is that the visitor leaves
                return await receive()
            began = time.monotonic()
            try:
                async with asyncio.timeout(patience):
                    message = await receive()
            except TimeoutError:
                told = "The upload is too slow: try a better connection."
                raise WebError(408, told) from None
            size, more = len(message.get("body", b"")), message.get("more_body", False)
            left = patience - (time.monotonic() - began) + size / _BYTES_PER_SECOND
            taken, patience = taken + size, min(left, _PATIENCE_SECONDS)
            _check_length(taken, longest)
            return message

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status, given = message["status"], MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    given.setdefault(name, value)
                if more:  # else the rest of the body could be fed for ever
                    given["Connection"] = "close"
            await send(message)

        try:
            self._check(scope, path, headers)
            announced = headers.get("content-length", "")
            _check_length(int(announced) if announced.isdecimal() else 0, longest)
            await self._app(scope, limited, answer)
        except Exception as error:
            if status:  # the answer had begun: all that is left is to break it off
                raise
            if not isinstance(error, WebError):
                log.exception("%s %s failed", scope["method"], scope["path"])
            told = error if isinstance(error, WebError) else _hidden(error)
            if more:
                await _discard(receive)
            await refusal(told.status_code, told.detail, told.headers)(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - started
            index = self._settings.name
            self._metrics.request(index, scope["method"], route, status or 499, seconds)

    def _check(self, scope: Scope, path: str, headers: Mapping[str, str]) -> None:
        check_host(headers.get("host", ""), self._settings)
        if path.startswith("/api/"):
            check_origin(headers)
        visitor = (scope.get("client") or ("", 0))[0]
        self._rates.spend(visitor, cost_of(scope["method"], path))
        self._keys.check(path, scope["query_string"].decode("latin-1"), headers, visitor)
        if path.startswith(INDEXES):
            name = path.removeprefix(INDEXES).partition("/")[0]
            raise WebError(404, f"This server has no index {name!r}: check its name.")
        changes = scope["method"] == "POST" and _CHANGES.fullmatch(path)
        if changes and not self._settings.writable:
            raise WebError(403, "Nothing can be changed here: start the server with --writable.")


def _check_length(size: int, longest: int) -> None:
    if size > longest:
        most = longest - _FRAME if longest > _JSON_BYTES else longest
        shown = f"{most / 2**20:.0f} MiB" if most >= 2**20 else f"{most / 2**10:.0f} KiB"
        raise WebError(413, f"The request is too large: the limit is {shown}.")


async def _discard(receive: Receive) -> None:
    """Read the rest of a body: many senders look for the answer only when all is sent."""
    left, more = _DISCARDED_BYTES, True
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARDED_SECONDS):
            while more and left > 0:
                message = await receive()
                left, more = left - len(message.get("body", b"")), message.get("more_body", False)


def _hidden(error: Exception) -> WebError:
    if isinstance(error, OSError) and error.errno in _FULL:
        return WebError(507, "The server's disk is full: try again when there is space.")
    return WebError(500, HIDDEN)
