import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from solar.cli import app
from solar.cli.options import known_device
from solar.errors import SolarError
from solar.index import Index
from solar.models import PatchNet, save
from solar.storage.types import DescriptorSpec
from solar.training.shared_recipe import Recipe

COMPUTING = {
    "describe": ("a.jpg", "-o", "out.npy"),
    "attention": ("a.jpg", "--at", "1,1", "-o", "out.png"),
    "match": ("a.jpg", "b.jpg"),
    "evaluate": ("photos",),
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
    for device in ("cuda", "gpu"):
        with pytest.raises(SolarError, match=f"(?i){device}.*choose cpu"):
            app([command, *COMPUTING[command], "--device", device], standalone_mode=False)
    assert not list(tmp_path.iterdir())


def refused_without_torch(*arguments: str) -> str:
    """What a command that fails says, where importing torch would be noticed."""
    code = (
        "import sys; from solar.cli import main\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "torch was imported" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("command", ["describe", "attention", "evaluate"])
def test_an_unknown_model_is_refused_at_once(command: str) -> None:
    said = refused_without_torch(command, *COMPUTING[command], "--model", "solr-r18")
    assert "solr-r18" in said
    assert "solar-r18" in said  # a name like it


def test_unknown_local_features_are_refused_at_once() -> None:
    said = refused_without_torch("search", "a.solar", "b.jpg", "--local-features", "solar-loca-345")
    assert "solar-loca-345" in said
    assert "solar-local-345" in said


@pytest.mark.skipif("+cpu" not in torch.__version__, reason="asks how many GPUs there are")
def test_a_gpu_is_refused_at_once_where_torch_knows_none() -> None:
    assert "cuda:1" in refused_without_torch("evaluate", "photos", "--device", "cuda:1")


def test_a_text_is_refused_at_once_where_the_model_reads_none(tmp_path: Path) -> None:
    Index.create(
        tmp_path / "a.solar", np.eye(2, 4), ["a.jpg", "b.jpg"], spec=DescriptorSpec(4, "solar-r18")
    )
    said = refused_without_torch("search", str(tmp_path / "a.solar"), "--text", "a red door")
    assert "solar-r18 has no text encoder" in said


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
