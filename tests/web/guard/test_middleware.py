"""The layer around the app, alone."""

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
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
