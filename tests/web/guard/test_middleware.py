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
from solar.web.monitoring import Metrics
from solar.web.settings import WebSettings

Receive = Callable[[], Awaitable[dict[str, Any]]]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is refused is not waited for long."""
    for name in ("_LINGER_SECONDS", "_LINGER_WHOLE_SECONDS"):
        monkeypatch.setattr(f"solar.web.guard.middleware.{name}", 0.05)


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

    guard = Guard(app, WebSettings(), Keys(None), Metrics())
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


def test_a_long_body_is_read_only_to_the_limit() -> None:
    read = []

    async def endless() -> dict[str, Any]:
        read.append(2**16)
        return {"type": "http.request", "body": bytes(2**16), "more_body": True}

    assert visit(endless, transfer_encoding="chunked")[0] == 413
    assert sum(read) <= 9 * 2**20  # a little is thrown away, so that the sender sees the answer


def test_a_body_that_only_dribbles_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solar.web.guard.middleware._PATIENCE_SECONDS", 0.2)

    async def dribbling() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    status, said = visit(dribbling, content_length="60000")
    assert status == 408
    assert "slow" in said["error"]


def test_an_answer_before_the_end_of_the_body_closes_the_connection() -> None:
    async def dribbling() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def app(scope: Any, receive: Receive, send: Any) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    start, *rest = answers(app, dribbling, content_length="60000")
    assert dict(start["headers"])[b"connection"] == b"close"
    assert b"".join(message["body"] for message in rest) == b"{}"
    assert [message.get("more_body", False) for message in rest] == [True, False]


def test_a_body_that_comes_in_many_pieces_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    # For the guard, a second passes between any two looks at the clock.
    clock = SimpleNamespace(monotonic=count().__next__, perf_counter=time.perf_counter)
    monkeypatch.setattr("solar.web.guard.middleware.time", clock)
    pieces = [True] * 59 + [False]

    async def steady() -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(1024), "more_body": pieces.pop(0)}

    assert visit(steady, content_length=str(60 * 1024))[0] == 200


def test_a_long_body_that_says_so_is_not_handed_on() -> None:
    async def nothing() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert visit(nothing, content_length=str(2**30))[0] == 413


def test_a_visitor_who_goes_away_is_no_failure_to_log(caplog: pytest.LogCaptureFixture) -> None:
    async def goes() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def app(scope: Any, receive: Receive, send: Any) -> None:
        assert (await receive())["type"] == "http.disconnect"
        raise RuntimeError("the client has gone")

    assert answers(app, goes, content_length="10") == []
    assert not caplog.records


def test_work_for_a_visitor_who_has_gone_is_dropped() -> None:
    messages = [
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]
    dropped = []

    async def goes() -> dict[str, Any]:
        return messages.pop(0)

    async def app(scope: Any, receive: Receive, send: Any) -> None:
        assert (await receive())["type"] == "http.request"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            dropped.append(1)
            raise

    assert answers(app, goes) == []
    assert dropped == [1]


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


def test_uploads_under_way_stay_within_their_budget() -> None:
    async def visits() -> tuple[list[int], int, int]:
        sent: list[dict[str, Any]] = []
        going, taken = asyncio.Event(), 0

        async def silence() -> dict[str, Any]:
            await going.wait()
            return {"type": "http.disconnect"}

        async def app(scope: Any, receive: Receive, send: Any) -> None:
            nonlocal taken
            taken += 1
            await receive()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if len(sent) == 3 * 112:  # each refusal: a start, a body and its end
                going.set()

        guard = Guard(app, WebSettings(), Keys(None), Metrics())
        scope = scope_of("/api/v1/queries", {"content-length": str(31 * 2**20)})
        other = scope_of("/api/v1/search", {"content-length": "10"})
        await asyncio.gather(*(guard(one, silence, send) for one in (*[scope] * 120, other)))
        assert dict(sent[0]["headers"])[b"retry-after"] == b"5"
        before = taken
        await guard(scope, silence, send)
        return [one["status"] for one in sent if "status" in one], before, taken

    statuses, before, after = asyncio.run(visits())
    assert statuses == [503] * 112
    assert (before, after) == (9, 10)


@pytest.mark.parametrize(("beyond", "status"), [(0, 200), (1, 413)])
def test_a_body_may_be_as_long_as_the_limit(beyond: int, status: int) -> None:
    body = b" " * (_JSON_BYTES + beyond)
    sent = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in sent:
            return message
        await asyncio.Event().wait()  # the visitor stays for the answer
        raise AssertionError

    assert visit(receive, content_length=str(len(body)))[0] == status
