from pathlib import Path

import pytest
import torch

from solar.models import RetrievalConfig, RetrievalNet, save


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a network of 16 numbers that looks at small photos once."""
    torch.manual_seed(0)
    net = RetrievalNet(RetrievalConfig("resnet18", dim=16, size=64, scales=(1.0,)))
    return save(net, tmp_path_factory.mktemp("model") / "tiny.safetensors")
