import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from solar.describe import Throughput, extract
from solar.describe.pipeline import Progress
from solar.errors import SolarError
from solar.models import RetrievalNet

pytest.importorskip("distributed", reason='pip install "solar-retrieval[dask]"')

FEW = Throughput(decoders=0, batch=4)


def content(store: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in store.iterdir() if p.name != ".lock"}


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def start(processes: list[subprocess.Popen[bytes]], *arguments: object) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "distributed.cli." + str(arguments[0]),
        *map(str, arguments[1:]),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    processes.append(process)
    return process


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_cluster_that_loses_a_worker_writes_the_same_store(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    from distributed import Client

    address = f"tcp://127.0.0.1:{free_port()}"
    options = ("--host", "127.0.0.1", "--no-dashboard")
    start(processes, "dask_scheduler", "--port", address.rsplit(":", 1)[1], *options)
    worker = ("dask_worker", address, "--no-nanny", "--nthreads", 1, *options)
    doomed, _ = (start(processes, *worker) for _ in range(2))
    with Client(address, timeout=30) as client:
        client.wait_for_workers(2, timeout=60)

    described = threading.Event()

    def kill_one() -> None:
        described.wait(60)
        os.kill(doomed.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    extract(
        photos,
        tmp_path / "cluster",
        model=tiny,
        throughput=FEW,
        shard_size=1,
        scheduler=address,
        progress=lambda *_: described.set(),
    )
    killer.join()
    assert doomed.wait(10) == -signal.SIGKILL
    extract(photos, tmp_path / "here", model=tiny, throughput=FEW, shard_size=1)
    assert content(tmp_path / "cluster") == content(tmp_path / "here")


def test_local_workers_write_the_same_store(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    counted: list[tuple[int, int]] = []
    extract(
        photos,
        tmp_path / "workers",
        model=tiny,
        throughput=FEW,
        shard_size=9,
        workers=2,
        progress=lambda *n: counted.append(n),
    )
    assert [sum(n) for n in zip(*counted, strict=True)] == [24, 3]
    extract(photos, tmp_path / "here", model=tiny, throughput=FEW, shard_size=9)
    assert content(tmp_path / "workers") == content(tmp_path / "here")


def test_two_runs_with_one_model_share_a_cluster(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    from distributed import LocalCluster

    def describe(name: str, progress: Progress | None = None) -> None:
        extract(
            photos,
            tmp_path / name,
            model=tiny,
            throughput=FEW,
            shard_size=9,
            scheduler=cluster.scheduler_address,
            progress=progress,
        )

    def meanwhile(*_: int) -> None:
        if not (tmp_path / "second").exists():
            describe("second")

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        describe("first", meanwhile)
    assert content(tmp_path / "second") == content(tmp_path / "first")


def test_a_scheduler_that_does_not_answer_is_one_sentence(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solar.describe.cluster.TIMEOUT", 1)
    address = f"tcp://127.0.0.1:{free_port()}"
    began = time.monotonic()
    with pytest.raises(SolarError, match=f"No Dask scheduler answers at {address}"):
        extract(photos, tmp_path / "s", model=tiny, scheduler=address)
    assert time.monotonic() - began < 20
