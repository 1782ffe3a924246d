"""The layer around the app, alone."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from solar.web.access import Keys
from solar.web.middleware import Guard
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

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    settings = WebSettings(patience=0.05)
    guard = Guard(app, settings, Keys(None), Metrics())
    named = {
        "host": "localhost",
        **{key.replace("_", "-"): value for key, value in headers.items()},
    }
    scope = {
        **{"type": "http", "method": "POST", "path": "/api/v1/search", "query_string": b""},
        "headers": [(key.encode(), value.encode()) for key, value in named.items()],
        "client": ("127.0.0.1", 1),
    }
    asyncio.run(guard(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body)


def test_a_silent_visitor_is_not_waited_for() -> None:
    async def silence() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    status, answer = visit(silence, content_length="10")
    assert status == 408
    assert answer["error"].endswith(".")


def test_a_long_body_is_read_only_to_the_limit() -> None:
    read = []

    async def endless() -> dict[str, Any]:
        read.append(2**16)
        return {"type": "http.request", "body": bytes(2**16), "more_body": True}

    assert visit(endless, transfer_encoding="chunked")[0] == 413
    assert sum(read) <= 9 * 2**20  # a little is thrown away, so that the sender sees the answer


def test_a_long_body_that_says_so_is_not_handed_on() -> None:
    async def nothing() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert visit(nothing, content_length=str(2**30))[0] == 413
