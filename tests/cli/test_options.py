from pathlib import Path

import pytest
import torch

from solar.cli import app
from solar.cli.options import known_device
from solar.errors import SolarError

COMPUTING = {
    "describe": ("a.jpg", "-o", "out.npy"),
    "attention": ("a.jpg", "--at", "1,1", "-o", "out.png"),
    "match": ("a.jpg", "b.jpg"),
    "evaluate": ("photos",),
    "extract": ("photos", "-o", "photos.store"),
    "train": ("recipe.yaml",),
    "distill": ("photos", "--teacher", "solar-r18"),
    "demo": ("photos",),
}


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.mark.usefixtures("no_cuda")
@pytest.mark.parametrize("command", COMPUTING)
def test_a_device_that_is_not_there_is_told_before_any_work(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SolarError) as told:
        app([command, *COMPUTING[command], "--device", "cuda"], standalone_mode=False)
    assert str(told.value) == "This machine has no CUDA device to describe photos with."
    with pytest.raises(SolarError, match=r"^--device takes cpu or cuda, not 'gpu'"):
        app([command, *COMPUTING[command], "--device", "gpu"], standalone_mode=False)
    assert not list(tmp_path.iterdir())


def test_a_gpu_may_be_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for known in (None, "cpu", "cuda", "cuda:1"):
        assert known_device(known) == known
    with pytest.raises(SolarError, match="has 2 CUDA devices, and no cuda:2"):
        known_device("cuda:2")
    for wrong in ("cuda:", "cuda:x", "cuda:-1", "CUDA", ""):
        with pytest.raises(SolarError, match="takes cpu or cuda"):
            known_device(wrong)
