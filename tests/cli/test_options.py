from pathlib import Path

import pytest
import torch

from solar.cli import app
from solar.cli.options import known_device
from solar.errors import SolarError
from solar.models import PatchNet, save
from solar.training.shared_recipe import Recipe

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
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("no_cuda")
@pytest.mark.parametrize("command", COMPUTING)
def test_a_device_that_is_not_there_is_told_before_any_work(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SolarError) as told:
        app([command, *COMPUTING[command], "--device", "cuda"], standalone_mode=False)
    assert str(told.value) == "This machine has no CUDA device: choose cpu."
    with pytest.raises(
        SolarError, match=r"^This machine has no device 'gpu': choose cpu or cuda\.$"
    ):
        app([command, *COMPUTING[command], "--device", "gpu"], standalone_mode=False)
    assert not list(tmp_path.iterdir())


def test_a_gpu_may_be_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for known in (None, "cpu", "cuda", "cuda:1"):
        assert known_device(known) == known
    for wrong in ("cuda:2", "cuda:", "cuda:x", "cuda:-1", "CUDA", ""):
        with pytest.raises(SolarError, match="choose cpu or cuda"):
            known_device(wrong)


def test_a_patch_network_matches_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(PatchNet(), tmp_path / "net.safetensors")
    asked: list[object] = []

    def matched(*_: object, model: object, **__: object) -> None:
        asked.append(model)
        raise SolarError("enough")

    monkeypatch.setattr("solar.matching.match.match", matched)
    for model in ("sift", str(tmp_path / "net.safetensors")):
        with pytest.raises(SolarError, match="enough"):
            app(
                ["match", "a", "b", "--local-features", model, "--device", "cpu"],
                standalone_mode=False,
            )
    assert asked[0] == "sift"
    assert isinstance(asked[1], PatchNet)
    assert asked[1].device.type == "cpu"


def test_a_training_takes_the_device_over_its_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[str | None] = []

    def launch(_: object, recipe: Recipe, *__: object, **___: object) -> dict[str, object]:
        devices.append(recipe.compute.device)
        raise SolarError("enough")

    monkeypatch.setattr("solar.training.loop.launch", launch)
    monkeypatch.setattr("solar.training.distill.task.launch", launch)
    run = str(tmp_path / "run")
    for more in ((), ("--device", "cpu")):
        with pytest.raises(SolarError, match="enough"):
            app(["train", "recipes/toy-solar-r18.yaml", "--run", run, *more], standalone_mode=False)
        with pytest.raises(SolarError, match="enough"):
            app(["distill", *COMPUTING["distill"], "--run", run, *more], standalone_mode=False)
    assert devices == [None, None, "cpu", "cpu"]
