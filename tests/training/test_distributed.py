"""Two real processes on this machine, started by torchrun, against one."""

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

from solar.errors import SolarError
from solar.training import distributed

SCRIPT = Path(__file__).with_name("two_ranks.py")
ENVIRONMENT = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("ranks")
    command = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command += ["--nproc-per-node", "2", str(SCRIPT), str(folder)]
    path = os.pathsep.join([str(SCRIPT.parents[1]), *filter(None, sys.path)])
    environment = {k: v for k, v in os.environ.items() if k not in ENVIRONMENT}
    environment |= {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=120
        )
        # Gloo's threads sometimes outlive a process by a moment, and end it like this.
        if "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.fixture(scope="module")
def script() -> Any:
    spec = spec_from_file_location("two_ranks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_process_knows_its_place(ranks: list[dict[str, Any]]) -> None:
    assert [rank["place"] for rank in ranks] == [[0, 2, 0, 1], [1, 2, 1, 0]]


def test_loss_and_gradients_of_two_are_those_of_one(
    ranks: list[dict[str, Any]], script: Any
) -> None:
    network = script.Network()
    loss = script.total_loss(network(script.batch()))
    loss.backward()
    for rank in ranks:
        torch.testing.assert_close(rank["loss"], loss.detach())
        torch.testing.assert_close(rank["gradients"], script.gradients(network))


def test_loss_of_halves_would_be_another(script: Any) -> None:
    # Otherwise the test above could not tell a gathered batch from a divided one.
    descriptors = script.Network()(script.batch())
    halves = [script.total_loss(half) for half in descriptors.chunk(2)]
    assert not torch.allclose((halves[0] + halves[1]) / 2, script.total_loss(descriptors))


def test_rows_are_gathered_in_the_order_of_the_ranks(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["gathered"].tolist() == [[0], [0], [1], [1]]


def test_everybody_learns_what_the_first_decided(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["shared"].tolist() == [[1, 7]]


def test_unequal_parts_are_collected_in_order(ranks: list[dict[str, Any]]) -> None:
    assert [rank["part"] for rank in ranks] == [[0, 2], [2, 5]]
    for rank in ranks:
        assert rank["collected"].tolist() == [0, 1, 2, 3, 4]


def test_lone_process_needs_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    x = torch.arange(3.0, requires_grad=True)
    assert distributed.start() == distributed.World(rank=0, size=1, local_rank=0)
    assert distributed.gather(x) is x
    assert torch.equal(distributed.share(x), x)
    assert torch.equal(distributed.collect(x), x)
    assert distributed.part(5) == slice(0, 5)
    distributed.stop()


def test_more_processes_than_gpus_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name, value in zip(ENVIRONMENT, ("2", "2", "3", "127.0.0.1", "1"), strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(SolarError, match="--nproc-per-node 2"):
        distributed.start("cuda")
