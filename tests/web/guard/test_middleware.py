"""The layer around the app, alone."""

import asyncio
import errno
import json
import time
from collections.abc import Awaitable, Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from solar.web.guard.access import Keys
from solar.web.guard.middleware import _JSON_BYTES, Guard
from solar.web.guard.rates import Rates
from solar.web.monitoring import Metrics
from solar.web.settings import WebSettings

Receive = Callable[[], Awaitable[dict[str, Any]]]


def visit(receive: Receive, **headers: str) -> tuple[int, dict[str, str]]:
    """Post something to an app that reads its whole body; gives the status and the answer."""

    async def app(scope: Any, receive: Receive, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    start, *rest = answers(app, receive, **headers)
    return start["status"], json.loads(b"".join(message.get("body", b"") for message in rest))


def answers(app: Any, receive: Receive, **headers: str) -> list[dict[str, Any]]:
    """What is sent to a visitor who posts something to an app."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    guard = Guard(app, WebSettings(), Keys(None), Metrics(), Rates(0, 1))
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    asyncio.run(guard(scope_of("/api/v1/search", named), receive, send))
    return sent


def scope_of(path: str, headers: dict[str, str]) -> dict[str, Any]:
    named = {"host": "localhost", **headers}
    return {
        **{"type": "http", "method": "POST", "path": path, "query_string": b""},
        "headers": [(key.encode(), value.encode()) for key, value in named.items()],
        "client": ("127.0.0.1", 1),
    }


def test_a_long_body_is_read_only_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solar.web.guard.middleware._DISCARDED_BYTES", 2**20)
    read = []

    async def endless() -> dict[str, Any]:
        read.append(2**16)
        return {"type": "http.request", "body": bytes(2**16), "more_body": True}

    assert visit(endless, transfer_encoding="chunked")[0] == 413
    assert sum(read) <= 2 * _JSON_BYTES + 2**20  # some is discarded, to let the sender finish


def test_a_body_that_only_dribbles_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solar.web.guard.middleware._PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr("solar.web.guard.middleware._DISCARDED_SECONDS", 0.05)

    async def dribbling() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    status, said = visit(dribbling, content_length="60000")
    assert status == 408
    assert "slow" in said["error"]


def test_a_body_that_comes_in_many_pieces_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    # For the guard, a second passes between any two looks at the clock.
    clock = SimpleNamespace(monotonic=count().__next__, perf_counter=time.perf_counter)
    monkeypatch.setattr("solar.web.guard.middleware.time", clock)
    pieces = [True] * 59 + [False]

    async def steady() -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(1024), "more_body": pieces.pop(0)}

    assert visit(steady, content_length=str(60 * 1024))[0] == 200


@pytest.mark.parametrize("length", ["0", "60000"])
def test_an_answer_before_the_end_of_the_body_closes_the_connection(length: str) -> None:
    async def silence() -> dict[str, Any]:
        raise AssertionError("the body is not asked for")

    async def app(scope: Any, receive: Receive, send: Any) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    start, _ = answers(app, silence, content_length=length)
    assert dict(start["headers"]).get(b"connection") == (None if length == "0" else b"close")


def test_a_long_body_that_says_so_is_not_handed_on() -> None:
    async def nothing() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert visit(nothing, content_length=str(2**30))[0] == 413


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 507), (errno.EPERM, 500)])
def test_what_the_machine_lacks_is_told(number: int, status: int) -> None:
    async def there() -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError

    async def app(scope: Any, receive: Receive, send: Any) -> None:
        raise OSError(number, "/a/secret/place")

    start, body = answers(app, there)
    assert start["status"] == status
    assert b"secret" not in body["body"]


@pytest.mark.parametrize(("beyond", "status"), [(0, 200), (1, 413)])
def test_a_body_may_be_as_long_as_the_limit(beyond: int, status: int) -> None:
    body = b" " * (_JSON_BYTES + beyond)
    sent = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(sent)

    assert visit(receive, content_length=str(len(body)))[0] == status
