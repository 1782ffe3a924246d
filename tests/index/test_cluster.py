import multiprocessing
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.filled import content, filled, named, written
from support.running import python

from solar.describe import Throughput
from solar.describe.pipeline import Progress
from solar.errors import SolarError
from solar.models import RetrievalNet

pytest.importorskip("distributed", reason='pip install "solar-retrieval[dask]"')

FEW = Throughput(decoders=0, batch=4)
HERE = ("--host", "127.0.0.1", "--no-dashboard")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def start(
    processes: list[subprocess.Popen[bytes]], *arguments: object, folder: Path | None = None
) -> subprocess.Popen[bytes]:
    command = [*python(), "-m", f"distributed.cli.{arguments[0]}", *map(str, arguments[1:])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment, cwd=folder, **quiet)
    processes.append(process)
    return process


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start_scheduler(
    processes: list[subprocess.Popen[bytes]],
) -> tuple[subprocess.Popen[bytes], str]:
    """A scheduler and its address."""
    port = free_port()
    scheduler = start(processes, "dask_scheduler", "--port", port, *HERE)
    return scheduler, f"tcp://127.0.0.1:{port}"


def start_worker(
    processes: list[subprocess.Popen[bytes]], address: str, folder: Path | None = None
) -> subprocess.Popen[bytes]:
    worker = ("dask_worker", address, "--no-nanny", "--nthreads", 1, *HERE)
    return start(processes, *worker, folder=folder)


def test_a_cluster_that_loses_a_worker_writes_the_same_store(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    from distributed import Client

    _, address = start_scheduler(processes)
    doomed, _ = (start_worker(processes, address) for _ in range(2))
    with Client(address, timeout=30) as client:
        client.wait_for_workers(2, timeout=60)

    described = threading.Event()

    def kill_one() -> None:
        described.wait(60)
        os.kill(doomed.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    filled(
        photos,
        tmp_path / "cluster",
        model=tiny,
        throughput=FEW,
        rows=1,
        scheduler=address,
        progress=lambda _, done, __: described.set() if done else None,
    )
    killer.join()
    assert doomed.wait(10) == -signal.SIGKILL
    filled(photos, tmp_path / "here", model=tiny, throughput=FEW, rows=1)
    assert content(tmp_path / "cluster") == content(tmp_path / "here")


def test_local_workers_write_the_same_store(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    counted: list[tuple[str, int, int]] = []
    filled(
        photos,
        tmp_path / "workers",
        model=tiny,
        throughput=FEW,
        rows=9,
        workers=2,
        progress=lambda *n: counted.append(n),
    )
    assert counted[-1] == ("Describing", 27, 27)
    filled(photos, tmp_path / "here", model=tiny, throughput=FEW, rows=9)
    assert content(tmp_path / "workers") == content(tmp_path / "here")


def test_two_runs_with_one_model_share_a_cluster(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    from distributed import LocalCluster

    def describe(name: str, progress: Progress | None = None) -> None:
        filled(
            photos,
            tmp_path / name,
            model=tiny,
            throughput=FEW,
            rows=9,
            scheduler=cluster.scheduler_address,
            progress=progress,
        )

    def meanwhile(_: str, done: int, __: int) -> None:
        if done and not (tmp_path / "second").exists():
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
    with pytest.raises(SolarError, match=address):
        filled(photos, tmp_path / "s", model=tiny, scheduler=address)


def test_a_cluster_that_is_lost_is_one_sentence_and_a_rerun_goes_on(
    photos: Path,
    tiny: RetrievalNet,
    tmp_path: Path,
    processes: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One cluster loses, in turn, what it can lose."""
    some = [photos / "landmark-0", photos / "landmark-1"]
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    # Large scales take the workers long enough for them to be lost midway.
    slow: dict[str, Any] = {"model": tiny, "throughput": FEW, "rows": 1, "scales": (5.0,)}
    scheduler, address = start_scheduler(processes)

    def refused(index: str | Path, why: str, kill: Sequence[subprocess.Popen[bytes]] = ()) -> None:
        def described(_: str, done: int, __: int) -> None:
            for process in kill if done else ():
                process.kill()

        with pytest.raises(SolarError, match=why):
            filled(some, index, scheduler=address, progress=described, **slow)
        assert "Traceback" not in capfd.readouterr().err

    from distributed import Client

    with Client(address, timeout=30):  # it answers
        pass
    with monkeypatch.context() as patched:
        patched.setattr("solar.describe.cluster.TIMEOUT", 1)
        refused("s", "has no workers: start some with `dask worker`")
    assert not written(here / "s")
    elsewhere = start_worker(processes, address, there)
    if Path("/proc/self/cwd").exists():  # a folder that is another one for every process
        refused(
            "/proc/self/cwd/s",
            "does not see the folder /proc/self/cwd/s/segments/incoming: let all",
        )
    lost = "has lost its scheduler or all its workers; what is finished is kept"
    refused("s", lost, [elsewhere])
    kept = written(here / "s")
    assert 0 < len(kept) < 12
    start_worker(processes, address)
    refused("s", lost, [scheduler])
    more = written(here / "s")
    assert len(kept) < len(more) < 12
    assert len(filled(some, "s", **slow)) == 12
    assert more.items() <= written(here / "s").items()  # nothing was described twice


def test_a_cluster_build_killed_twenty_times_loses_nothing(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    """Workers go on living: what they write for a run that was killed must do no harm."""
    _, address = start_scheduler(processes)
    start_worker(processes, address)
    here, there = tmp_path / "here", tmp_path / "there"
    how: dict[str, Any] = {"model": tiny, "throughput": FEW, "rows": 1}
    filled(photos, here, **how).close()
    fork, rng = multiprocessing.get_context("spawn"), random.Random(0)
    kept: dict[str, int] = {}
    for kill in range(20):
        arguments = (photos, there, tiny, address)
        child = fork.Process(target=_fill_on_cluster, args=arguments)
        child.start()
        # Every second time after it has come further.
        while kill % 2 and len(written(there)) <= len(kept) and child.is_alive():
            time.sleep(0.001)
        child.join(rng.uniform(0, 0.2) if kill % 2 else rng.uniform(0, 4))
        child.kill()
        child.join()
        now = named(there)
        assert kept.keys() <= now
        kept = {name: when for name, when in written(there).items() if name in now}
    filled(photos, there, scheduler=address, **how).close()
    assert content(there) == content(here)
    assert kept.items() <= written(there).items()  # nothing was described twice
    assert written(there).keys() == written(here).keys()


def _fill_on_cluster(photos: Path, place: Path, net: RetrievalNet, address: str) -> None:
    filled(photos, place, model=net, throughput=FEW, rows=1, scheduler=address)
