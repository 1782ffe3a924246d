from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from support.milvus_server import MilvusServer, serve

Addresses: TypeAlias = Callable[..., str]


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
