"""Everything that a request passes before it is answered, and that an answer carries.

A plain ASGI layer around the app: it refuses requests before anything of them is read, cuts off
bodies that are too long or too slow while they arrive, drops the work for visitors who have gone,
adds the headers that tell browsers to be strict, and counts.
"""

import asyncio
import errno
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import nullcontext, suppress
from typing import Any, TypeAlias

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse

from solar.web.access import Keys, Rates, check_host, check_origin, cost_of
from solar.web.bodies import FRAME, JSON_BYTES, Body, InFlight, Message, Receive
from solar.web.monitoring import Metrics
from solar.web.problems import HIDDEN, WebError
from solar.web.settings import WebSettings

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Frame-Options": "DENY",
}
INDEXES = "/indexes/"
"""Each of several indexes is below this path."""

_ADD_TIMES = 16  # photos of full size in one request to add some

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_HANDLES = {errno.EMFILE, errno.ENFILE}

log = logging.getLogger("solar.web")


class Admission:
    """How often visitors may come and how much they may send, to all indexes of a server."""

    def __init__(self, settings: WebSettings) -> None:
        self.rates = Rates(settings.rate, settings.burst)
        self.longest = {
            "/api/v1/queries": settings.max_upload_bytes + FRAME,
            "/api/v1/photos": _ADD_TIMES * settings.max_upload_bytes + FRAME,
        }
        # Each its own: who sends hundreds of photos to add does not keep others from searching.
        self.in_flight = {path: InFlight(settings.in_flight_bytes) for path in self.longest}


class Guard:
    """See the top of this module; `admission` is made from the settings if not given."""

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        longest = self._admission.longest.get(scope["path"], JSON_BYTES)
        answer, body = _Answer(send), Body(receive, headers, longest, self._settings.patience)
        try:
            self._check(scope, headers)
            body.check_announced()
            uploads = self._admission.in_flight.get(scope["path"]) if body.unread else None
            with uploads.reserved(body.size) if uploads else nullcontext():
                await self._while_there(scope, body, answer)
            if body.problem and not answer.status:
                raise body.problem
        except WebError as problem:
            await answer.refuse(problem, body)
        except Exception as error:
            if not body.gone:
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

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        path, method = scope["path"], scope["method"]
        check_host(headers.get("host", ""), self._settings)
        if path.startswith("/api/"):
            check_origin(headers)
        visitor = (scope.get("client") or ("", 0))[0]
        self._admission.rates.spend(visitor, cost_of(method, path))
        self._keys.check(path, scope["query_string"].decode("latin-1"), headers, visitor)
        if path.startswith(INDEXES):  # whatever is sent there, no index would take it
            raise self._no_index(path.removeprefix(INDEXES).partition("/")[0], headers, visitor)

    def _no_index(self, name: str, headers: dict[str, str], visitor: str) -> WebError:
        there = self._settings.indexes
        advice = f"choose {', '.join(there)}" if there else f"leave out {INDEXES}{name}"
        try:
            self._keys.check("/api/", "", headers, visitor)
        except WebError:  # only visitors with a token are told which indexes there are
            advice = "check its name"
        return WebError(404, f"This server has no index {name!r}: {advice}.")


class _Answer:
    """Sends an answer with our headers, or a refusal in its place."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    def unless(self, body: Body) -> Send:
        """What the app sends with; a body found too long meanwhile silences it."""

        async def send(message: Message) -> None:
            if body.problem and not self.status:
                return
            if message["type"] == "http.response.start":
                self.status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await self._send(message)

        return send

    async def refuse(self, problem: WebError, body: Body) -> None:
        """Send a sentence; and close the connection if the body was not read to its end."""
        if self.status:  # the answer had begun: all that is left is to break it off
            raise problem
        self.status = problem.status
        rest = body.unread
        headers = {**HEADERS, **problem.headers, "Cache-Control": "no-store"}
        headers |= {"Connection": "close"} if rest else {}
        answer = JSONResponse({"error": problem.sentence}, self.status, headers)
        start = {"type": "http.response.start", "status": self.status}
        await self._send({**start, "headers": answer.raw_headers})
        await self._send({"type": "http.response.body", "body": answer.body, "more_body": rest})
        if rest:
            await body.drain(whole=problem.status == 503)
            await self._send({"type": "http.response.body", "body": b""})


def _hidden(error: Exception) -> WebError:
    """What a visitor is told of a failure that is none of the visitor's."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL:
        return WebError(507, "The server's disk is full: try again when there is space.")
    if number in _HANDLES:
        return WebError(
            503, "The server has too many files open: try again in 5 s.", {"Retry-After": "5"}
        )
    return WebError(500, HIDDEN)
