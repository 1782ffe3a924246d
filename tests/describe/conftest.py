from pathlib import Path

import pytest
import torch

from solar.demo import toy
from solar.models import RetrievalConfig, RetrievalNet


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
