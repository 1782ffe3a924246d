import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "tensors.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


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
        yield


def pytest_configure(config: pytest.Config) -> None:
    # Test processes that run side by side must not fight over the cores.
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)
