"""What visitors send: how long it may be, how slowly it may come, and whether they are still there.

The bytes of all uploads that are on their way or being looked at stay within a budget; one more is
told to come back before anything of it is read.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from solar.web.problems import WebError

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]

JSON_BYTES = 64 * 1024
FRAME = 64 * 1024
"""What a multipart body holds besides its photos."""

# Bytes a second that must come on average, once the patience is used up.
_PACE = 16 * 1024

# After a refusal the sender may still be sending: reading a little lets it see the answer. Many
# read it only when all is sent, and who may come back should see that.
_LINGER_BYTES = 8 * 2**20
_LINGER_SECONDS = 2.0
_LINGER_WHOLE_SECONDS = 10.0


class InFlight:
    """Bytes of uploads under way, within a budget; one that is larger has to be alone."""

    def __init__(self, budget: int) -> None:
        self._budget, self.bytes = budget, 0

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Count an upload inside the block; a WebError if others leave no room for it."""
        if self.bytes and self.bytes + size > self._budget:
            raise WebError(503, "Too many uploads at once: try again in 5 s.", {"Retry-After": "5"})
        self.bytes += size
        try:
            yield
        finally:
            self.bytes -= size


class Body:
    """What a visitor sends, up to a length, in time; and whether the visitor has gone."""

    def __init__(
        self, receive: Receive, headers: Mapping[str, str], longest: int, patience: float
    ) -> None:
        self._receive, self._longest, self._patience = receive, longest, patience
        self._announced = headers.get("content-length", "0")
        self._bytes, self._waited = 0, 0.0
        self._begun = False
        self._complete, self._gone = asyncio.Event(), asyncio.Event()
        self.unread = self._announced != "0" or "transfer-encoding" in headers
        self.problem: WebError | None = None
        if not self.unread:
            self._complete.set()

    @property
    def size(self) -> int:
        """How long it will be, at most."""
        return int(self._announced) if self._announced.isdecimal() else self._longest

    @property
    def gone(self) -> bool:
        """Whether the visitor has gone."""
        return self._gone.is_set()

    def check_announced(self) -> None:
        """Refuse a body that says beforehand that it is too long."""
        if self._announced.isdecimal() and int(self._announced) > self._longest:
            raise self._too_long()

    async def receive(self) -> Message:
        """The next piece, for the app."""
        if not self.unread:
            if not self._begun:  # there is no body, which is a piece as well
                self._begun = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await self._gone.wait()
            return {"type": "http.disconnect"}
        self._begun = True
        message = await self._in_time()
        self._bytes += len(message.get("body", b""))
        if message["type"] == "http.disconnect":
            self._gone.set()
        if self._bytes > self._longest:
            self.problem = self._too_long()
            raise self.problem
        if not message.get("more_body"):
            self.unread = False
            self._complete.set()
        return message

    async def until_gone(self) -> None:
        """Return when the visitor goes away after the whole body has come."""
        await self._complete.wait()
        while not self.gone:
            if (await self._receive())["type"] == "http.disconnect":
                self._gone.set()

    async def drain(self, *, whole: bool = False) -> None:
        """Read a little of what still comes, or the `whole` of it, and throw it away."""
        seen, most = 0, self._longest if whole else _LINGER_BYTES
        try:
            async with asyncio.timeout(_LINGER_WHOLE_SECONDS if whole else _LINGER_SECONDS):
                while self.unread and seen < most:
                    message = await self._receive()
                    seen += len(message.get("body", b""))
                    self.unread = bool(message.get("more_body"))
        except TimeoutError:
            pass

    async def _in_time(self) -> Message:
        """The next piece; only the time that the visitor takes counts, not that of the app."""
        started = time.monotonic()
        try:
            left = self._patience + self._bytes / _PACE - self._waited
            return await asyncio.wait_for(self._receive(), left)
        except TimeoutError:
            self.problem = WebError(408, "The request was too slow: send it again.")
            raise self.problem from None
        finally:
            self._waited += time.monotonic() - started

    def _too_long(self) -> WebError:
        size = self._longest - FRAME if self._longest > JSON_BYTES else self._longest
        shown = f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
        return WebError(413, f"The request is too large: the limit is {shown}.")
