import socket
from pathlib import Path

import pytest

from solar.demo import toy


@pytest.fixture(scope="session")
def landmarks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small photos of a few toy landmarks: landmark/photo.jpg."""
    folder = tmp_path_factory.mktemp("toy") / "train"
    toy.write(folder, landmarks=8, views=4, size=(96, 72))
    return folder


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
