"""Calls to a Milvus server that wait, try again, and complain in one sentence."""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from solar.errors import SolarError, optional
from solar.search.milvus_address import TOKEN, Options, Place
from solar.search.storage_protocol import NoIndexError

_CONNECTING = 10.0  # seconds; nobody waits longer for a host that is misspelt
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0

_MISSING = 100
_UNAUTHENTICATED = 1800
# Milvus's numbers for: unavailable, too many requests, a rate limit, not fully loaded, and a
# channel, replica or node that is moving.
_PASSING = frozenset({2, 4, 8, 103, 203, 401, 503, 901, 902, 903, 905})

_Result = TypeVar("_Result")

# Files of Milvus Lite are served by this very process until nobody uses them.
_users: Counter[str] = Counter()
_users_lock = threading.Lock()
# What Milvus Lite cannot bear in two threads at once: both write its table of names.
_ALONE = frozenset({"rename_collection", "drop_collection"})
_alone = threading.Lock()


class Connection:
    """A client of one server; `pymilvus` is the library itself."""

    def __init__(self, place: Place, options: Options) -> None:
        self.place, self.options = place, options
        self.pymilvus, self._errors = _libraries()
        self._client: Any = self._connect()

    def call(self, name: str, *arguments: Any, timeout: float | None = None, **named: Any) -> Any:
        """Call a method of `pymilvus.MilvusClient`, which must bear to be called twice.

        A SolarError if it failed for good, or took longer than `timeout` seconds.
        """
        limit = timeout or self.options.timeout
        with _alone if self.place.file and name in _ALONE else nullcontext():
            return self.repeat(
                name, lambda client: getattr(client, name)(*arguments, timeout=limit, **named)
            )

    def repeat(self, doing: str, action: Callable[[Any], _Result]) -> _Result:
        """Do something with the client, all of it again whenever the server does not answer."""
        pause = _FIRST_PAUSE
        for attempt in range(self.options.retries + 1):
            try:
                return action(self._client)
            except self._errors as error:
                if attempt == self.options.retries or not _passes(error):
                    raise self._explained(error, doing) from error
            # A random share, so that many clients do not come back at the same moment.
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Disconnect, and let go of the file of Milvus Lite once nobody uses it."""
        if self._client is None:
            return
        self._client.close()
        self._client = None
        if self.place.file:
            _close_file(self.place.file)

    def _connect(self) -> Any:
        place = self.place
        try:
            if place.file:
                return _open_file(place.file, self._client_of)
            return self._client_of(place.uri)
        except self._errors as error:
            if place.file:
                raise SolarError(
                    f"{place.file} cannot be opened: another process may use it, or its folder is "
                    "missing."
                ) from error
            raise self._explained(error, "connect") from error

    def _client_of(self, uri: str) -> Any:
        return self.pymilvus.MilvusClient(
            uri=uri,
            token=self.place.token,
            db_name=self.place.database,
            timeout=min(self.options.timeout, _CONNECTING),
        )

    def _explained(self, error: Exception, doing: str) -> SolarError:
        code, message = _code(error), getattr(error, "message", "") or str(error)
        text = " ".join(message.split()).rstrip(".")
        if code == _MISSING or "collection not found" in text:
            return NoIndexError(
                f"{self.place} does not exist: make it with `solar index build` or `solar index "
                "copy`."
            )
        if code == _UNAUTHENTICATED or "UNAUTHENTICATED" in text or "auth check failure" in text:
            return SolarError(
                f"Milvus at {self.place.server} refuses the user: set {TOKEN} to user:password."
            )
        if doing == "connect" or _passes(error):
            return SolarError(
                f"No Milvus server answers at {self.place.server}: start it, or check the address "
                f"({text[:200]})."
            )
        return SolarError(
            f"Milvus at {self.place.server} refused ({doing.replace('_', ' ')}): {text}."
        )


def _libraries() -> tuple[Any, tuple[type[Exception], ...]]:
    """`pymilvus` and the exceptions of its calls."""
    pymilvus, grpc = optional("pymilvus", "milvus"), optional("grpc", "milvus")
    # They log every failed call with a traceback; our sentence says it.
    for name in ("pymilvus", "milvus_lite"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus, (pymilvus.MilvusException, grpc.RpcError)


def _code(error: Exception) -> Any:
    """Milvus's number, or the `grpc.StatusCode` of a call that never reached it."""
    code = getattr(error, "code", None)
    return code() if callable(code) else code


def _passes(error: Exception) -> bool:
    """Whether the same call may well succeed later."""
    code = _code(error)
    return (
        code in _PASSING
        or getattr(code, "name", "") in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        or bool(getattr(error, "retriable", False))
        or type(error).__name__ == "MilvusUnavailableException"
    )


def _open_file(file: str, connect: Callable[[str], Any]) -> Any:
    """Connect to a file of Milvus Lite; it cannot bear two threads that do so at once."""
    with _users_lock:
        client = connect(file)
        _users[str(Path(file).resolve())] += 1
    return client


def _close_file(file: str) -> None:
    path = str(Path(file).resolve())
    with _users_lock:
        _users[path] -= 1
        if not _users[path]:
            manager = import_module("milvus_lite.server_manager").server_manager_instance
            manager.release_server(file)
