"""How many requests a visitor may send: refused with 429 beyond that."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from solar.web.problems import WebError


class Rates:
    """Token buckets of `burst` requests for the `most` latest visitors, refilled at a `rate`.

    `what` names the requests in the refusal.
    """

    def __init__(
        self,
        rate: float,
        burst: float,
        clock: Callable[[], float] = time.monotonic,
        most: int = 10_000,
        what: str = "requests",
    ) -> None:
        self._what = what
        self._rate, self._burst, self._clock, self._most = rate, burst, clock, most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, visitor: str, cost: float) -> None:
        """Count a request; a WebError once the visitor has sent too many."""
        if self._rate <= 0 or cost <= 0:
            return
        who, now = neighbourhood(visitor), self._clock()
        left, since = self._buckets.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= cost
        self._buckets[who] = (left - cost if allowed else left, now)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = max(1, round((cost - left) / self._rate + 0.5))
            raise WebError(429, f"Too many {self._what}", wait=wait)

    def give_back(self, visitor: str) -> None:
        """Undo the count of a request that cost 1."""
        who = neighbourhood(visitor)
        if who in self._buckets:
            left, since = self._buckets[who]
            self._buckets[who] = (left + 1, since)


def cost_of(method: str, path: str) -> float:
    """How much a request counts: work 1, pictures 0.1, the page itself 0."""
    if not path.startswith("/api/"):
        return 0.0
    work = method == "POST" or path.endswith(("/original", "/albums/export"))
    return 1.0 if work else 0.1


def neighbourhood(visitor: str) -> str:
    """An IPv4 address, or the /64 network of an IPv6 address, which is one household."""
    address = address_of(visitor)
    if address is None or address.version == 4:
        return visitor
    return str(ipaddress.ip_network(f"{visitor}/64", strict=False))


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """A numeric address; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
