import asyncio
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from support.web_visits import Open, upload

from solar.describe.pipeline import QueryEncoder
from solar.web.guard import thread_pools
from solar.web.guard.thread_pools import NetworkThread, Threads
from solar.web.problems import WebError


class Gate:
    """Something to run that holds a thread up until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        self.opened.wait()


@pytest.fixture
def network() -> Iterator[NetworkThread]:
    thread = NetworkThread(queue=5, batch=3, gather=0.0)
    yield thread
    thread.close()


def test_equal_tasks_run_together_and_in_order(network: NetworkThread) -> None:
    runs: list[list[int]] = []

    def double(items: Sequence[int]) -> list[int]:
        runs.append(list(items))
        return [2 * item for item in items]

    async def visit() -> list[int]:
        gate = Gate()
        blocking = asyncio.ensure_future(network.alone(gate))
        await asyncio.to_thread(gate.reached.wait)
        keys = ["a", "b", "a", "a", "a"]
        tasks = [
            asyncio.ensure_future(network.together(key, number, double))
            for number, key in enumerate(keys)
        ]
        while network.waiting < len(keys):
            await asyncio.sleep(0)
        with pytest.raises(WebError):  # the queue is full
            await network.together("a", 9, double)
        gate.opened.set()
        await blocking
        return await asyncio.gather(*tasks)

    assert asyncio.run(visit()) == [0, 2, 4, 6, 8]
    assert runs == [[0, 2, 3], [1], [4]]


def test_a_task_that_fails_leaves_the_thread_running(network: NetworkThread) -> None:
    async def visit() -> int:
        with pytest.raises(ZeroDivisionError):
            await network.alone(lambda: 1 // 0)
        return await network.alone(lambda: 7)

    assert asyncio.run(visit()) == 7


def test_who_goes_away_is_not_worked_for(network: NetworkThread) -> None:
    ran = []

    async def visit() -> None:
        gate = Gate()
        blocking = asyncio.ensure_future(network.alone(gate))
        left = asyncio.ensure_future(network.alone(lambda: ran.append(1)))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        gate.opened.set()
        await blocking
        await network.alone(lambda: None)

    asyncio.run(visit())
    assert ran == []


def test_threads_refuse_what_would_pile_up() -> None:
    threads = Threads(1, 1)

    async def visit() -> None:
        gate = Gate()
        waiting = [asyncio.ensure_future(threads.run(gate)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(WebError) as refused:
            await threads.run(lambda: None)
        assert int(refused.value.headers["Retry-After"]) >= 1
        gate.opened.set()
        await asyncio.gather(*waiting)

    asyncio.run(visit())
    threads.close()


@pytest.fixture
def blocked(open_app: Open) -> Iterator[tuple[TestClient, Gate]]:
    """An app whose network is held up."""
    client = open_app(queue=6, batch=8)
    client.get("/api/v1/info")  # the model is loaded
    gate = Gate()
    client.portal.start_task_soon(client.app.state.service.network.alone, gate)
    gate.reached.wait()
    yield client, gate
    gate.opened.set()


def searches(client: TestClient, ids: Sequence[str], pool: ThreadPoolExecutor) -> list:
    def ask(identity: str) -> object:
        return client.post("/api/v1/search", json={"photo": identity, "k": 1})

    return [pool.submit(ask, identity) for identity in ids]


def test_concurrent_queries_share_a_forward_pass(
    blocked: tuple[TestClient, Gate], photo: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, gate = blocked
    passes = []
    original = QueryEncoder.describe

    def counted(encoder: QueryEncoder, photos: Sequence[object]) -> list:
        passes.append(len(photos))
        return original(encoder, photos)

    monkeypatch.setattr(QueryEncoder, "describe", counted)
    ids = [upload(client, photo) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        answers = searches(client, ids, pool)
        while client.app.state.service.network.waiting < 6:
            pass
        gate.opened.set()
        found = [answer.result() for answer in answers]
    assert passes == [6]
    assert {answer.json()["hits"][0]["name"] for answer in found} == {"landmark-002/view-001.jpg"}


def test_a_full_queue_says_when_to_come_back(
    blocked: tuple[TestClient, Gate], photo: bytes
) -> None:
    client, gate = blocked
    ids = [upload(client, photo) for _ in range(7)]
    with ThreadPoolExecutor(6) as pool:
        answers = searches(client, ids[:6], pool)
        while client.app.state.service.network.waiting < 6:
            pass
        for headers in ({}, {"Accept": "application/x-ndjson"}):
            refused = client.post("/api/v1/search", json={"photo": ids[6]}, headers=headers)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"].startswith("Too many searches are waiting")
        assert client.get("/healthz").status_code == 200  # the event loop is free
        gate.opened.set()
        assert [answer.result().status_code for answer in answers] == [200] * 6


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take memory back themselves")
def test_memory_is_given_back_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    twice = asyncio.Event()

    async def tidy() -> None:
        task = asyncio.create_task(thread_pools.keep_tidy())
        await asyncio.wait_for(twice.wait(), 30)
        task.cancel()

    def trim(pad: int) -> None:
        calls.append(pad)
        if len(calls) == 2:
            loop.call_soon_threadsafe(twice.set)

    monkeypatch.setattr(thread_pools.ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=trim))
    monkeypatch.setattr(thread_pools, "_TIDY", 0.0)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(tidy())
    loop.close()
    assert calls[:2] == [0, 0]
