"""Calls to a Milvus server, with retries."""

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
from solar.storage.milvus.options import TOKEN, Options, Place
from solar.storage.protocol import NoIndexError

_CONNECTING = 10.0  # seconds; enough for a misspelt host
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0

_MISSING = 100
_UNAUTHENTICATED = 1800
# Milvus's error codes for: unavailable, too many requests, a rate limit, not fully loaded, and a
# moving channel, replica or node.
_PASSING = frozenset({2, 4, 8, 103, 203, 401, 503, 901, 902, 903, 905})

_Result = TypeVar("_Result")

# How many connections each file of Milvus Lite has: this process serves it until the last closes.
_users: Counter[str] = Counter()
_users_lock = threading.Lock()
# Not thread-safe in Milvus Lite: both write its table of names.
_ALONE = frozenset({"rename_collection", "drop_collection"})
_alone = threading.Lock()


class Connection:
    """A client of one server; `pymilvus` is the library itself."""

    def __init__(self, place: Place, options: Options) -> None:
        self.place, self.options = place, options
        self.pymilvus, self._errors = _libraries()
        self._client: Any = self._connect()

    def call(self, name: str, *arguments: Any, timeout: float | None = None, **named: Any) -> Any:
        """Call an idempotent method of `pymilvus.MilvusClient`, with retries.

        A SolarError if all failed, or took longer than `timeout` seconds.
        """
        limit = timeout or self.options.timeout
        with _alone if self.place.file and name in _ALONE else nullcontext():
            return self.repeat(
                name, lambda client: getattr(client, name)(*arguments, timeout=limit, **named)
            )

    def repeat(self, doing: str, action: Callable[[Any], _Result]) -> _Result:
        """Run an action with the client, again whenever the server does not answer."""
        pause = _FIRST_PAUSE
        for attempt in range(self.options.retries + 1):
            try:
                return action(self._client)
            except self._errors as error:
                if attempt == self.options.retries or not _passes(error):
                    raise self._explained(error, doing) from error
            # Random, so that many clients do not return at the same moment.
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Disconnect, and stop serving the file of Milvus Lite with its last connection."""
        if self._client is None:
            return
        self._client.close()
        self._client = None
        if self.place.file:
            path = str(Path(self.place.file).resolve())
            with _users_lock:
                _users[path] -= 1
                if not _users[path]:
                    manager = import_module("milvus_lite.server_manager").server_manager_instance
                    manager.release_server(self.place.file)

    def _connect(self) -> Any:
        file = self.place.file
        # Milvus Lite cannot open a file in two threads at once.
        with _users_lock if file else nullcontext():
            try:
                client = self.pymilvus.MilvusClient(
                    uri=self.place.uri,
                    token=self.place.token,
                    db_name=self.place.database,
                    timeout=min(self.options.timeout, _CONNECTING),
                )
            except self._errors as error:
                if file:
                    raise SolarError(
                        f"{file} cannot be opened: another process may use it, or its folder is "
                        "missing."
                    ) from error
                raise self._explained(error, "connect") from error
            if file:
                _users[str(Path(file).resolve())] += 1
        return client

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
    # They log every failed call with a traceback.
    for name in ("pymilvus", "milvus_lite"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus, (pymilvus.MilvusException, grpc.RpcError)


def _code(error: Exception) -> Any:
    """Milvus's error code, or the `grpc.StatusCode` of a call that did not reach it."""
    code = getattr(error, "code", None)
    return code() if callable(code) else code


def _passes(error: Exception) -> bool:
    """Whether the same call may succeed later."""
    code = _code(error)
    return (
        code in _PASSING
        or getattr(code, "name", "") in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        or bool(getattr(error, "retriable", False))
        or type(error).__name__ == "MilvusUnavailableException"
    )
