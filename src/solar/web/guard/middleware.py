"""The ASGI layer around the app.

It refuses requests before their bodies are read, cuts off bodies that are too long or too slow
while they arrive, limits the bytes of all uploads in progress, drops the work for visitors who have
left, adds security headers, and counts. Connections are left to a reverse proxy.
"""

import asyncio
import errno
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from solar.web.guard.access import Keys, check_host, check_origin
from solar.web.guard.rates import Rates, cost_of
from solar.web.monitoring import Metrics
from solar.web.problems import HIDDEN, WebError
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

# After a refusal the sender may still be sending: reading a little lets it see the answer. Many
# clients read it only when all is sent; those that may try again should see it.
_LINGER_BYTES = 8 * 2**20
_LINGER_SECONDS = 2.0
_LINGER_WHOLE_SECONDS = 10.0

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}

log = logging.getLogger("solar.web")


def _headers(settings: WebSettings) -> dict[str, str]:
    """Headers of every answer: pictures come from here, and from the server of map tiles."""
    tiles = f" {tile_origin(settings.tiles)}" if settings.tiles else ""
    return {"Content-Security-Policy": _POLICY.format(tiles=tiles), **_HEADERS}


class Body:
    """The body of a request, up to a length; and whether the visitor has left."""

    def __init__(self, receive: Receive, headers: Mapping[str, str], longest: int) -> None:
        self._receive, self._longest = receive, longest
        announced = headers.get("content-length", "")
        self.size = int(announced) if announced.isdecimal() else longest  # at most
        self.unread = announced not in ("", "0") or "transfer-encoding" in headers
        self._bytes, self._begun, self._patience = 0, False, _PATIENCE_SECONDS
        self._complete, self.gone = asyncio.Event(), asyncio.Event()
        self.problem: WebError | None = None
        if not self.unread:
            self._complete.set()

    def check_announced(self) -> None:
        """Refuse a body that says beforehand that it is too long."""
        if self.size > self._longest:
            raise self._too_long()

    async def receive(self) -> Message:
        """The next piece, for the app."""
        if not self.unread:
            if not self._begun:  # there is no body, which is a piece as well
                self._begun = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await self.gone.wait()
            return {"type": "http.disconnect"}
        self._begun = True
        message = await self._in_time()
        self._bytes += len(message.get("body", b""))
        if message["type"] == "http.disconnect":
            self.gone.set()
        if self._bytes > self._longest:
            self.problem = self._too_long()
            raise self.problem
        if not message.get("more_body"):
            self.unread = False
            self._complete.set()
        return message

    async def _in_time(self) -> Message:
        """The next piece; a WebError if the body comes too slowly.

        Only waiting counts. Otherwise a few visitors who send a byte at a time would keep the
        budget for uploads from all others.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._patience):
                message = await self._receive()
        except TimeoutError:
            self.problem = WebError(408, "The upload is too slow: try a better connection.")
            raise self.problem from None
        gained = len(message.get("body", b"")) / _BYTES_PER_SECOND
        left = self._patience - (time.monotonic() - began) + gained
        self._patience = min(left, _PATIENCE_SECONDS)
        return message

    async def until_gone(self) -> None:
        """Return when the visitor leaves after the whole body has come."""
        await self._complete.wait()
        while not self.gone.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                self.gone.set()

    async def drain(self, *, whole: bool = False) -> None:
        """Read and discard a little of the rest, or the `whole` of it."""
        seen, most = 0, self._longest if whole else _LINGER_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_WHOLE_SECONDS if whole else _LINGER_SECONDS):
                while self.unread and seen < most:
                    message = await self._receive()
                    seen += len(message.get("body", b""))
                    self.unread = bool(message.get("more_body"))

    def _too_long(self) -> WebError:
        size = self._longest - _FRAME if self._longest > _JSON_BYTES else self._longest
        shown = f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
        return WebError(413, f"The request is too large: the limit is {shown}.")


class Admission:
    """Rates and upload budgets, shared by all indexes of a server."""

    def __init__(self, settings: WebSettings) -> None:
        self.rates = Rates(settings.rate, max(10 * settings.rate, 1.0))
        self.longest = {
            "/api/v1/queries": settings.max_upload_bytes + _FRAME,
            "/api/v1/photos": _ADD_TIMES * settings.max_upload_bytes + _FRAME,
        }
        self._budget = settings.in_flight_bytes
        # Separate budgets: adding hundreds of photos does not keep others from searching.
        self._in_flight = dict.fromkeys(self.longest, 0)

    @contextmanager
    def reserved(self, path: str, size: int) -> Iterator[None]:
        """Count an upload inside the block; a WebError if others leave no room for it."""
        if self._in_flight[path] and self._in_flight[path] + size > self._budget:
            raise WebError(503, "Too many uploads at once: try again in 5 s.", {"Retry-After": "5"})
        self._in_flight[path] += size
        try:
            yield
        finally:
            self._in_flight[path] -= size


class Guard:
    """Checks, limits and counts requests; `admission` is made from the settings by default."""

    def __init__(
        self,
        app: App,
        settings: WebSettings,
        keys: Keys,
        metrics: Metrics,
        admission: Admission | None = None,
    ) -> None:
        self._app, self._settings, self._keys, self._metrics = app, settings, keys, metrics
        self._admission = admission or Admission(settings)
        self._headers = _headers(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        started = time.perf_counter()
        headers = Headers(scope=scope)
        # Without the path that the app is mounted at.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        longest = self._admission.longest.get(path, _JSON_BYTES)
        answer, body = _Answer(send, self._headers), Body(receive, headers, longest)
        try:
            self._check(scope, path, headers)
            body.check_announced()
            upload = body.unread and path in self._admission.longest
            with self._admission.reserved(path, body.size) if upload else nullcontext():
                await self._while_there(scope, body, answer)
            if body.problem and not answer.status:
                raise body.problem
        except WebError as problem:
            await answer.refuse(problem, body)
        except Exception as error:
            if not body.gone.is_set():
                if body.problem is None:
                    log.exception("%s %s failed", scope["method"], scope["path"])
                await answer.refuse(body.problem or _hidden(error), body)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - started
            status, index = answer.status or 499, self._settings.label
            self._metrics.request(scope["method"], route, status, seconds, index)

    async def _while_there(self, scope: Scope, body: Body, answer: "_Answer") -> None:
        """Have the app answer; what waits is dropped when the visitor goes."""
        work = asyncio.ensure_future(self._app(scope, body.receive, answer.unless(body)))
        watch = asyncio.ensure_future(body.until_gone())
        try:
            await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
            left = not work.done()
            if left:
                work.cancel()
            with suppress(asyncio.CancelledError) if left else nullcontext():
                await work

    def _check(self, scope: Scope, path: str, headers: Mapping[str, str]) -> None:
        check_host(headers.get("host", ""), self._settings)
        if path.startswith("/api/"):
            check_origin(headers)
        visitor = (scope.get("client") or ("", 0))[0]
        self._admission.rates.spend(visitor, cost_of(scope["method"], path))
        self._keys.check(path, scope["query_string"].decode("latin-1"), headers, visitor)
        if path.startswith(INDEXES):
            name = path.removeprefix(INDEXES).partition("/")[0]
            raise WebError(404, f"This server has no index {name!r}: check its name.")


class _Answer:
    """Sends an answer with our headers, or a refusal in its place."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self._send, self._headers = send, headers
        self.status = 0

    def unless(self, body: Body) -> Send:
        """The `send` of the app; silent after the body was refused.

        An answer before the end of the body closes the connection, which could be fed for ever.
        """

        async def send(message: Message) -> None:
            if body.problem and not self.status:
                return
            if message["type"] == "http.response.start":
                self.status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                if body.unread:
                    headers["Connection"] = "close"
            elif body.unread and not message.get("more_body"):
                await self._send({**message, "more_body": True})
                await body.drain()
                message = {"type": "http.response.body", "body": b""}
            await self._send(message)

        return send

    async def refuse(self, problem: WebError, body: Body) -> None:
        """Send a sentence; close the connection if the body was not read to its end."""
        if self.status:  # the answer had begun: all that is left is to break it off
            raise problem
        self.status = problem.status
        rest = body.unread
        headers = {**self._headers, **problem.headers, "Cache-Control": "no-store"}
        headers |= {"Connection": "close"} if rest else {}
        answer = JSONResponse({"error": problem.sentence}, self.status, headers)
        start = {"type": "http.response.start", "status": self.status}
        await self._send({**start, "headers": answer.raw_headers})
        await self._send({"type": "http.response.body", "body": answer.body, "more_body": rest})
        if rest:
            await body.drain(whole=problem.status == 503)
            await self._send({"type": "http.response.body", "body": b""})


def _hidden(error: Exception) -> WebError:
    if isinstance(error, OSError) and error.errno in _FULL:
        return WebError(507, "The server's disk is full: try again when there is space.")
    return WebError(500, HIDDEN)
