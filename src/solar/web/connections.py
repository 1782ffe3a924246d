"""Connections that visitors hold open: how many, and how long they may say nothing.

uvicorn waits for ever for a request that is never finished, and for a visitor who does not read the
answer. Here the whole header must come within seconds, an answer must be taken within seconds, and
where too many connections are open, the one that has waited longest for a request makes room.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from solar.web.access import Network, address_of, neighbourhood

log = logging.getLogger("solar.web")

BACKLOG = 128
"""Connections taken at once; with those that are open, fewer than the files of a process."""

_LOGS = ("solar.web", "uvicorn.error", "asyncio")
_FULL = b'{"error": "Too many connections are open: try again in 5 s."}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
)


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections are open at most, and how long each may take.

    Attributes:
        most: In all.
        each: Of one visitor; 0 for any number.
        proxies: Networks whose connections carry the requests of many visitors.
        header: Seconds until the whole header of a request is there.
        reading: Seconds in which a visitor must take what was sent.
    """

    most: int = 512
    each: int = 64
    proxies: tuple[Network, ...] = ()
    header: float = 10.0
    reading: float = 60.0


class LimitedConnection(H11Protocol):
    """A connection that ends when its visitor is too slow; see `limited`."""

    limits: ClassVar = ConnectionLimits()
    _timer: asyncio.TimerHandle | None = None
    _since = 0.0
    _address = _visitor = ""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it where all others are at work."""
        address = transport.get_extra_info("peername") or ("",)
        self._address = str(address[0])
        self._visitor, self._since = neighbourhood(self._address), time.monotonic()
        room = self._make_room()
        super().connection_made(transport)
        self._wait(self.limits.header)
        if not room:
            log.warning("A connection was refused: too many are open.")
            transport.write(_REFUSAL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Take some bytes; once the header is whole, the app sets the pace."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self.idle:
            self._wait(None)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self.idle and not self.flow.write_paused:
            self._since = time.monotonic()
            self._wait(self.limits.header)

    def pause_writing(self) -> None:
        """Wait for a visitor to take what was sent."""
        super().pause_writing()
        self._wait(self.limits.reading)

    def resume_writing(self) -> None:
        """Go on after that."""
        super().resume_writing()
        self._wait(self.limits.header if self.idle else None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._wait(None)

    def _wait(self, seconds: float | None) -> None:
        """End the connection after so many seconds, whatever was to end it before; None: do not."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._abort)

    def _abort(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    @property
    def _from_proxy(self) -> bool:
        address = address_of(self._address)
        return address is not None and any(address in proxy for proxy in self.limits.proxies)

    def _make_room(self) -> bool:
        """Whether one more connection fits; ends one that waits for a request if need be."""
        others = [one for one in self.connections if isinstance(one, LimitedConnection)]
        mine = [one for one in others if one._visitor == self._visitor]
        most = self.limits.most
        each = most if self._from_proxy else self.limits.each or most
        for these, allowed in ((mine, each), (others, most)):
            if len(these) < allowed:
                continue
            waiting = [one for one in these if one.idle and one in self.connections]
            if not waiting:
                return False
            min(waiting, key=lambda one: one._since)._abort()
        return True


def most_connections(wanted: int = 512) -> int:
    """How many connections can be open at once: not more than half the files of a process."""
    try:
        from resource import RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows has no such limit
        return wanted
    files = getrlimit(RLIMIT_NOFILE)[0]
    return wanted if files < 0 else min(wanted, files // 2)


def limited(limits: ConnectionLimits) -> type[LimitedConnection]:
    """The protocol that uvicorn is to speak, as its option `http`."""
    return type("LimitedConnection", (LimitedConnection,), {"limits": limits})


class Seldom(logging.Filter):
    """Lets one line of a kind through in so many seconds; the next tells how many were left out."""

    def __init__(self, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds, self._clock = seconds, clock
        self._seen: dict[Any, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to print a record."""
        error = record.exc_info[1] if record.exc_info else None
        kind, now = (str(record.msg).partition("\n")[0], repr(error)), self._clock()
        since, more = self._seen.get(kind, (now - self._seconds, 0))
        if now - since < self._seconds:
            self._seen[kind] = since, more + 1
            return False
        if len(self._seen) > 1000:
            self._seen.clear()
        self._seen[kind] = now, 0
        if more:
            record.msg = f"{record.msg} ({more:,} more such lines were left out)"
        return True


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep a stranger from filling the log, inside the block."""
    filters = {logging.getLogger(name): Seldom() for name in _LOGS}
    for logger, seldom in filters.items():
        logger.addFilter(seldom)
    try:
        yield
    finally:
        for logger, seldom in filters.items():
            logger.removeFilter(seldom)
