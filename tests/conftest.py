import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import hypothesis
import numpy as np
import pytest
import torch
from support.milvus_server import MilvusServer, serve

from solar.demo import toy
from solar.models import RetrievalConfig, RetrievalNet

Addresses: TypeAlias = Callable[..., str]

# No test may fail because a machine is slow.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden() -> dict[str, np.ndarray]:
    found = {}
    for name in ("tensors.npz", "published.npz"):
        with np.load(GOLDEN / name, allow_pickle=False) as file:
            found.update(file)
    return found


@pytest.fixture(scope="session")
def golden_values() -> dict[str, Any]:
    return json.loads((GOLDEN / "values.json").read_text())


@pytest.fixture(scope="session")
def golden_image() -> Path:
    return GOLDEN / "image.png"


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test may see or fill the user's own cache, or reach the network by accident.

    Fixtures of a session are made before those of a test, and must keep to it as well.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("SOLAR_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        monkeypatch.setenv("SOLAR_OFFLINE", "1")
        # Tests before must not decide what computes: a graph is made only where it is asked for.
        monkeypatch.setattr("solar.describe.runtime.MANY", 1 << 30)
        yield


def pytest_configure(config: pytest.Config) -> None:
    # Test processes that run side by side must not fight over the cores.
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 generated photos of three sizes, upright and lying, and three files that are none."""
    folder = tmp_path_factory.mktemp("photos")
    for i in range(24):
        size = [(64, 48), (48, 64), (57, 43)][i % 3]
        (folder / f"landmark-{i % 4}").mkdir(exist_ok=True)
        toy.landmark(i % 4, i, size=size).save(folder / f"landmark-{i % 4}" / f"{i:02}.png")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing more")
    (folder / "empty.png").write_bytes(b"")
    (folder / "text.webp").write_text("not a photo")
    return folder


@pytest.fixture(scope="session")
def tiny() -> RetrievalNet:
    """A network small enough for a test."""
    torch.manual_seed(0)
    config = RetrievalConfig("resnet18", attention={5: 2}, dim=16, size=64, scales=(1.0,))
    return RetrievalNet(config).eval()


@pytest.fixture(scope="session")
def milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    with serve(tmp_path_factory.mktemp("milvus")) as server:
        yield server


@pytest.fixture(scope="module", params=["embedded", "lite", "server"])
def engine_address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Addresses:
    """For every engine, what makes the address of an index of a name."""
    return _addresses(request, tmp_path_factory)


@pytest.fixture(scope="module", params=["lite", "server"])
def milvus_address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Addresses:
    """The same for the two that are Milvus; options come after the name."""
    return _addresses(request, tmp_path_factory)


def _addresses(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Addresses:
    if request.param == "embedded":
        folder = tmp_path_factory.mktemp("embedded")
        return lambda name: str(folder / f"{name}.solar")
    pytest.importorskip("pymilvus", reason='pip install "solar-retrieval[milvus]"')
    if request.param == "lite":
        pytest.importorskip("milvus_lite", reason='pip install "solar-retrieval[milvus]"')
        file = tmp_path_factory.mktemp("lite") / "photos.db"
        return lambda name, **options: _joined(f"milvus://{file}", collection=name, **options)
    server: MilvusServer = request.getfixturevalue("milvus_server")
    return lambda name, **options: _joined(f"milvus://{server.address}/{name}", **options)


def _joined(address: str, **options: object) -> str:
    return address + "?" * bool(options) + "&".join(f"{k}={v}" for k, v in options.items())
