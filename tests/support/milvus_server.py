"""A real Milvus server on this machine, for tests: the standalone one of the `milvus` package."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

_PATIENCE = 120.0
_COMPONENTS = (
    "rootCoord",
    "proxy",
    "queryCoord",
    "queryNode",
    "indexNode",
    "dataCoord",
    "dataNode",
)


@dataclass
class MilvusServer:
    """What a test sees of the server."""

    address: str
    process: subprocess.Popen[bytes]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it answer nobody until the block ends."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self.wake()

    def wake(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def serve(folder: Path) -> Iterator[MilvusServer]:
    """Run a server on free ports, its data in a folder, until the block ends; or skip the test."""
    if importlib.util.find_spec("milvus") is None:
        pytest.skip("the server is not installed: pip install milvus==2.3.5 (Linux on x86-64)")
    import milvus

    config = milvus.MilvusServerConfig(data_dir=str(folder))
    names = [name for name in config.configurable_items if name.endswith("_port")]
    *ports, client, peer, health = _free_ports(len(names) + 3)
    config.update(**dict(zip(names, ports, strict=True)))
    for component in _COMPONENTS:
        config.set(f"{component}.ip", "127.0.0.1")
    # A server for one test need not be as unhurried as one for a cluster.
    config.set("queryCoord.checkInterval", 100)
    config.set("queryCoord.distPullInterval", 100)
    config.set("proxy.timeTickInterval", 50)
    config.resolve()
    milvus._initialize_data_files(str(folder))
    etcd = folder / "etcd.yaml"
    etcd.write_text(_etcd(client, peer))
    environment = {
        **os.environ,
        "DEPLOY_MODE": "STANDALONE",
        "ETCD_CONFIG_PATH": str(etcd),
        "LD_LIBRARY_PATH": str(folder / "bin"),
        "METRICS_PORT": str(health),
        "MILVUS_RUN_DIR": str(folder / "run"),
        "OMP_NUM_THREADS": "1",
    }
    command = [folder / "bin" / "milvus", "run", "standalone"]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        _wait_until_healthy(process, health, folder / "server.log")
        yield MilvusServer(f"127.0.0.1:{config.get('proxy_port')}", process)
    finally:
        process.kill()
        process.wait()


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = monotonic() + _PATIENCE
    while monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                if b"OK" in answer.read():
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        sleep(0.1)  # there is no event to wait for: it is another process
    raise RuntimeError(f"Milvus did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _etcd(client: int, peer: int) -> str:
    """Settings of the etcd inside the server, which would take its usual ports otherwise."""
    return "\n".join(
        [
            f"listen-client-urls: http://127.0.0.1:{client}",
            f"advertise-client-urls: http://127.0.0.1:{client}",
            f"listen-peer-urls: http://127.0.0.1:{peer}",
            f"initial-advertise-peer-urls: http://127.0.0.1:{peer}",
            f"initial-cluster: default=http://127.0.0.1:{peer}",
        ]
    )
