"""Who may ask: hosts, origins, tokens, signed pictures."""

import hashlib
import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import SplitResult, parse_qs, urlsplit

from solar.errors import SolarError
from solar.web.guard.rates import Rates, address_of
from solar.web.problems import WebError
from solar.web.settings import WebSettings

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_PICTURE = re.compile(r"/api/v1/photos/([^/]+)/(thumbnail|photo|original)")
_VALID = 3600
_OPEN = {"/api/v1/openapi.json"}


def check_host(host: str, settings: WebSettings) -> None:
    """Refuse a request that was sent to another host name.

    A page elsewhere can make its own name point to this machine, and its scripts may then read the
    answers (DNS rebinding). A numeric address cannot be made to point elsewhere.
    """
    name = _parsed(f"//{host}", "Host").hostname or ""
    if name in ("localhost", *settings.hosts) or address_of(name):
        return
    raise WebError(421, f"This server is not called {name!r}: start it with --allow-host {name}.")


def check_origin(headers: Mapping[str, str]) -> None:
    """Refuse requests from pages of other sites."""
    site, origin = headers.get("sec-fetch-site", ""), headers.get("origin")
    same = origin is None or _parsed(origin, "Origin").netloc == headers.get("host")
    if site in ("cross-site", "same-site") or not same:
        raise WebError(403, "Requests from pages of other sites are not allowed.")


def _parsed(address: str, header: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:  # a bracket that is never closed
        raise WebError(400, f"The header {header} is not a valid address.") from error


class Keys:
    """Checks the token, and signs the addresses of pictures, which carry no token of their own.

    After too many wrong tokens (`guesses`) a visitor must wait, even with the right one: otherwise
    it could be found by trying.
    """

    def __init__(
        self,
        token: str | None,
        clock: Callable[[], float] = time.time,
        guesses: Rates | None = None,
        realm: str = "",
    ) -> None:
        self._token, self._clock, self._realm = (token or "").encode(), clock, realm
        self._guesses = Rates(0, 1) if guesses is None else guesses

    def check(self, path: str, query: str, headers: Mapping[str, str], visitor: str = "") -> None:
        """Raise a WebError unless a visitor, by address, may send this request."""
        closed = path == "/metrics" or (path.startswith("/api/") and path not in _OPEN)
        if not (self._token and closed):
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._right(given.encode("latin-1"), visitor):
            return
        picture = _PICTURE.fullmatch(path)
        key = (parse_qs(query).get("k") or [""])[0]
        if picture and self._signed(signed_name(*picture.groups()), key):
            return
        wrong = "This token is wrong" if kind.lower() == "bearer" else "This server needs a token"
        told = f"{wrong}: send the server's as `Authorization: Bearer …`."
        raise WebError(401, told, headers={"WWW-Authenticate": "Bearer"})

    def _right(self, given: bytes, visitor: str) -> bool:
        self._guesses.spend(visitor, 1.0)
        right = hmac.compare_digest(given.strip(b" \t"), self._token)
        if right:
            self._guesses.give_back(visitor)
        return right

    def sign(self, photo: str) -> str:
        """A signature that opens the pictures of a `signed_name` for an hour or two."""
        if not self._token:
            return ""
        # The same for an hour, so that browsers can keep what they have fetched.
        until = (int(self._clock()) // _VALID + 2) * _VALID
        return f"{until:x}.{self._signature(photo, until)}"

    def _signed(self, photo: str, key: str) -> bool:
        until, _, signature = key.partition(".")
        if not re.fullmatch("[0-9a-f]{1,12}", until) or int(until, 16) < self._clock():
            return False
        expected = self._signature(photo, int(until, 16))
        return hmac.compare_digest(signature.encode(), expected.encode())

    def _signature(self, photo: str, until: int) -> str:
        signed = f"{self._realm} {photo} {until}".encode()
        return hmac.new(self._token, signed, hashlib.sha256).hexdigest()[:32]


def signed_name(photo: str, picture: str) -> str:
    """What a picture's address signs: that of a small one does not open the original."""
    return f"{photo} original" if picture == "original" else photo


def networks(given: Sequence[str]) -> tuple[Network, ...]:
    """Parse addresses and networks; a SolarError if one is neither."""
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in given)
    except ValueError as error:
        raise SolarError(
            f"`proxies=`: {error}; write an address like 127.0.0.1, or a network like 10.0.0.0/8."
        ) from error
