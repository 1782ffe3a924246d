"""Everything that a request passes before it is answered, and that an answer carries.

A plain ASGI layer around the app: it refuses requests before anything of them is read, cuts off
bodies that are too long while they arrive, adds the headers that tell browsers to be strict, and
counts.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse

from solar.web.access import Keys, Rates, check_host, check_origin, cost_of
from solar.web.monitoring import Metrics
from solar.web.problems import WebError
from solar.web.settings import WebSettings

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
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
_JSON_BYTES = 64 * 1024
_FRAME = 64 * 1024  # what a multipart body holds besides its photos
_ADD_TIMES = 16  # photos of full size in one request to add some

# After a refusal the sender may still be sending: reading a little lets it see the answer.
_LINGER_BYTES = 8 * 2**20
_LINGER_SECONDS = 2.0

log = logging.getLogger("solar.web")


class Guard:
    """See the top of this module."""

    def __init__(self, app: App, settings: WebSettings, keys: Keys, metrics: Metrics) -> None:
        self._app, self._settings, self._keys, self._metrics = app, settings, keys, metrics
        self._rates = Rates(settings.rate, settings.burst)
        self._longest = {
            "/api/v1/queries": settings.max_upload_bytes + _FRAME,
            "/api/v1/photos": _ADD_TIMES * settings.max_upload_bytes + _FRAME,
        }

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
        longest = self._longest.get(scope["path"], _JSON_BYTES)
        answer, body = _Answer(send), _Body(receive, headers, longest, self._settings.patience)
        try:
            self._check(scope, headers)
            body.check_announced()
            await self._app(scope, body.receive, answer.unless(body))
            if body.problem and not answer.status:
                raise body.problem
        except WebError as problem:
            await answer.refuse(problem, body)
        except Exception:
            if body.problem is None:
                log.exception("%s %s failed", scope["method"], scope["path"])
            hidden = WebError(500, "Something went wrong here; the server's log says what.")
            await answer.refuse(body.problem or hidden, body)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - started
            self._metrics.request(scope["method"], route, answer.status or 499, seconds)

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        path, method = scope["path"], scope["method"]
        check_host(headers.get("host", ""), self._settings)
        if path.startswith("/api/"):
            check_origin(headers)
        self._rates.spend((scope.get("client") or ("", 0))[0], cost_of(method, path))
        self._keys.check(path, scope["query_string"].decode("latin-1"), headers)


class _Body:
    """What a visitor sends, up to a length, and without long silences."""

    def __init__(
        self, receive: Receive, headers: dict[str, str], longest: int, patience: float
    ) -> None:
        self._receive, self._longest, self._patience = receive, longest, patience
        self._announced = headers.get("content-length", "0")
        self._bytes = 0
        self.unread = self._announced != "0" or "transfer-encoding" in headers
        self.problem: WebError | None = None

    def check_announced(self) -> None:
        """Refuse a body that says beforehand that it is too long."""
        if self._announced.isdecimal() and int(self._announced) > self._longest:
            raise self._too_long()

    async def receive(self) -> Message:
        """The next piece."""
        if not self.unread:  # all is there: what comes next is only that the visitor has gone
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), self._patience)
        except TimeoutError:
            self.problem = WebError(408, "The rest of the request did not come: send it again.")
            raise self.problem from None
        self._bytes += len(message.get("body", b""))
        self.unread = bool(message.get("more_body"))
        if self._bytes > self._longest:
            self.problem = self._too_long()
            raise self.problem
        return message

    async def drain(self) -> None:
        """Read a little of what still comes, and throw it away."""
        seen = 0
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while self.unread and seen < _LINGER_BYTES:
                    message = await self._receive()
                    seen += len(message.get("body", b""))
                    self.unread = bool(message.get("more_body"))
        except TimeoutError:
            pass

    def _too_long(self) -> WebError:
        size = self._longest - _FRAME if self._longest > _JSON_BYTES else self._longest
        shown = f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
        return WebError(413, f"This is too large: at most {shown} are taken here.")


class _Answer:
    """Sends an answer with our headers, or a refusal in its place."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    def unless(self, body: _Body) -> Send:
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

    async def refuse(self, problem: WebError, body: _Body) -> None:
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
            await body.drain()
            await self._send({"type": "http.response.body", "body": b""})
