"""Connections over real sockets, with limits that are soon reached."""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from solar.web.access import Keys
from solar.web.connections import ConnectionLimits, Seldom, limited, quiet_logs
from solar.web.middleware import Guard
from solar.web.monitoring import Metrics
from solar.web.settings import WebSettings

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once; /slow after a second, /large with more than a socket takes."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(1)
    body = bytes(2**25) if scope["path"] == "/large" else b"here"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def serving(answer: Any = app, **limits: Any) -> Iterator[tuple[uvicorn.Server, tuple[str, int]]]:
    """A server with such limits, and its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    protocol = limited(ConnectionLimits(**limits))
    config = uvicorn.Config(answer, http=protocol, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield server, listening.getsockname()
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=10)


def until_closed(connection: socket.socket, every: float = 0.0, byte: bytes = b"") -> float:
    """Seconds until the server ends a connection over which a byte is sent every so often."""
    started = time.monotonic()
    connection.settimeout(every or 10)
    while True:
        try:
            if byte:
                connection.send(byte)
            if not connection.recv(65536):
                break
        except TimeoutError:
            assert byte
        except (ConnectionResetError, BrokenPipeError):
            break
    return time.monotonic() - started


def test_a_silent_visitor_is_cut_off() -> None:
    with serving(header=0.3) as (server, address), connect(address) as silent:
        assert 0.1 < until_closed(silent) < 3
        assert not server.server_state.connections


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nX: "])
def test_a_header_that_trickles_is_cut_off(start: bytes) -> None:
    with serving(header=0.4) as (_, address), connect(address) as slow:
        slow.sendall(start)
        assert 0.2 < until_closed(slow, 0.05, b"G") < 3


def test_so_is_the_second_header_and_a_body_nobody_wants() -> None:
    with serving(header=0.4) as (_, address):
        for start in (ASK, ASK[:-2] + b"Content-Length: 999\r\n\r\n"):
            with connect(address) as slow:
                slow.sendall(start)
                assert b"200 OK" in slow.recv(4096)
                assert until_closed(slow, 0.05, b"G") < 3


def test_a_request_that_takes_long_is_answered() -> None:
    with serving(header=0.2) as (_, address), connect(address) as patient:
        patient.sendall(ASK.replace(b"/ ", b"/slow ", 1))
        assert b"200 OK" in patient.recv(4096)


def test_an_answer_that_nobody_takes_is_given_up() -> None:
    with serving(reading=0.3) as (server, address), connect(address) as lazy:
        lazy.sendall(ASK.replace(b"/ ", b"/large ", 1))
        deadline = time.monotonic() + 5
        while not server.server_state.connections:
            assert time.monotonic() < deadline
        while server.server_state.connections:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize("limits", [{"most": 20, "each": 0}, {"each": 20}])
def test_silent_visitors_lock_nobody_out(limits: dict[str, int]) -> None:
    with serving(**limits) as (server, address), contextlib.ExitStack() as held:
        for _ in range(100):
            held.enter_context(connect(address))
        with connect(address) as visitor:
            visitor.sendall(ASK)
            assert b"200 OK" in visitor.recv(4096)
        assert len(server.server_state.connections) <= 20


def test_where_all_are_at_work_one_more_is_told_to_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    with serving(each=3) as (_, address), contextlib.ExitStack() as held, quiet_logs():
        for _ in range(3):
            busy = held.enter_context(connect(address))
            busy.sendall(ASK.replace(b"/ ", b"/slow ", 1))
        time.sleep(0.2)
        for _ in range(20):
            with connect(address) as refused:
                answer = refused.recv(4096)
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"Retry-After: 5" in answer
        assert b"200 OK" in busy.recv(4096)
    assert len(caplog.records) == 1


def test_work_for_a_visitor_who_hangs_up_is_dropped() -> None:
    begun, dropped = threading.Event(), threading.Event()

    async def work(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"{}"
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            dropped.set()
            raise

    guard = Guard(work, WebSettings(), Keys(None), Metrics())
    with serving(guard) as (_, address):
        with connect(address) as visitor:
            visitor.sendall(ASK.replace(b"GET", b"POST")[:-2] + b"Content-Length: 2\r\n\r\n{}")
            assert begun.wait(10)
            assert not dropped.wait(0.1)
        assert dropped.wait(10)


def test_a_line_of_the_log_comes_seldom_and_with_a_count() -> None:
    now = 0.0
    seldom = Seldom(10.0, lambda: now)

    def passes(text: str) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 1, text, (), None)
        return record.getMessage() if seldom.filter(record) else None

    assert passes("full\nlonger") == "full\nlonger"
    assert [passes(f"full\n{n}") for n in range(1200)] == [None] * 1200
    assert passes("other") == "other"
    now = 11.0
    assert passes("full") == "full (1,200 more such lines were left out)"
