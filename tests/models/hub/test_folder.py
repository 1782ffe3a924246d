import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors import safe_open
from support.drawn import drawn_state

from solar import weights
from solar.errors import SolarError
from solar.models import (
    PatchConfig,
    PatchNet,
    RetrievalConfig,
    RetrievalNet,
    fingerprint,
    load,
    save,
    save_folder,
    zoo,
)

FILES = {"config.json", "model.safetensors", "preprocessor_config.json", "README.md"}
BUNDLED = "solar-local-345"


def head(folder: Path) -> dict[str, object]:
    """What the hub reads of a card."""
    _, yaml_head, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    content: dict[str, object] = yaml.safe_load(yaml_head)
    return content


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(load(BUNDLED, device="cpu"), tmp_path_factory.mktemp("bundled") / "local")


@pytest.fixture
def written(bundled: Path, tmp_path: Path) -> Path:
    """A folder of one's own to spoil."""
    return Path(shutil.copytree(bundled, tmp_path / "written"))


def test_a_network_comes_back_bit_for_bit_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    net = RetrievalNet(RetrievalConfig("resnet18", {5: 2}, size=96, scales=(1.0,))).eval()
    assert {file.name for file in save_folder(net, "net").iterdir()} == FILES
    again = load("net", device="cpu")
    assert again.source == str(tmp_path / "net")
    assert again.config == net.config
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 90, 3), np.uint8))
    assert np.array_equal(again.describe(photo), net.describe(photo))
    for ours, theirs in zip(net.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)


def test_settings_are_written_in_the_hub_s_terms(tmp_path: Path) -> None:
    config = RetrievalConfig("resnet18", dim=64, size=640, mean=(0.1, 0.2, 0.3))
    folder = save_folder(RetrievalNet(config), tmp_path / "net")
    settings = json.loads((folder / "config.json").read_text())
    assert settings["architectures"] == ["RetrievalNet"]
    assert (settings["model_type"], settings["task"]) == ("solar", "retrieval")
    assert settings["hidden_size"] == 64
    assert RetrievalConfig.from_dict(settings["settings"]) == config
    photos = json.loads((folder / "preprocessor_config.json").read_text())
    assert photos["size"] == {"longest_edge": 640}
    assert photos["image_mean"] == [0.1, 0.2, 0.3]
    assert photos["resample"] == Image.Resampling.LANCZOS


def test_the_card_of_a_bundled_model_tells_what_is_known(bundled: Path) -> None:
    told = head(bundled)
    assert told["library_name"] == "solar-retrieval"
    assert told["pipeline_tag"] == "image-feature-extraction"
    assert told["license"] == "mit"
    assert told["datasets"] == ["coco", "google-landmarks-v2"]
    assert told["metrics"] == ["map"]
    card = (bundled / "README.md").read_text(encoding="utf-8")
    assert "## Known limitations" in card
    assert weights.facts(BUNDLED)["file"]["sha256"] not in card, "That is another file's."
    assert "](../" not in card


def test_the_card_of_a_published_model_tells_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path))
    name = "solar-local-345-liberty"
    drawn = drawn_state(PatchNet(PatchConfig({3: 4, 4: 4, 5: 2})), "local")
    torch.save(drawn, tmp_path / zoo.find(name).file)
    folder = save_folder(load(name, device="cpu"), tmp_path / "mine")
    told = head(folder)
    assert (told["license"], told["datasets"]) == ("mit", ["ubc-phototour"])
    assert told["metrics"] == ["fpr95"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "| notredame | fpr95 | 1.32 |" in card
    assert 'solar.load("mine")' in card


def test_changed_weights_are_not_called_the_bundled_model(tmp_path: Path) -> None:
    net = load(BUNDLED, device="cpu")
    with torch.no_grad():
        next(net.parameters()).mul_(2)
    told = head(save_folder(net, tmp_path / "mine"))
    assert told["license"] == "unknown"
    assert "datasets" not in told


def test_the_card_names_the_model_that_a_network_was_made_of(tmp_path: Path) -> None:
    net = PatchNet()
    net.source = "hf://org/older@v1"
    assert head(save_folder(net, tmp_path / "mine"))["base_model"] == "org/older"


def test_half_the_size_is_written_on_request(tmp_path: Path) -> None:
    net = PatchNet(PatchConfig({3: 4}))
    folder = save_folder(net, tmp_path / "half", half=True)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        kinds = {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118
    assert torch.float16 in kinds
    assert isinstance(load(folder, device="cpu"), PatchNet)


def test_a_folder_is_written_again_but_keeps_its_card(written: Path) -> None:
    (written / "README.md").write_text("mine")
    net = PatchNet()
    save_folder(net, written)
    assert fingerprint(load(written, device="cpu")) == fingerprint(net)
    assert (written / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"notes.txt": "mine"}, "holds other files"),
        ({"config.json": '{"model_type": "bert"}'}, "holds another model, bert"),
        ({"config.json": "[1]"}, "is not a JSON object"),
        ({"config.json": "[" * 100_000}, "is not a JSON object"),
    ],
)
def test_other_people_s_folders_are_left_alone(
    tmp_path: Path, files: dict[str, str], complaint: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(SolarError, match=complaint):
        save_folder(PatchNet(), tmp_path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == files


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _other_settings(folder: Path) -> None:
    save(PatchNet(), folder / "model.safetensors")


def _cut(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])


def _flipped(folder: Path) -> None:
    whole = bytearray((folder / "model.safetensors").read_bytes())
    whole[-1000] ^= 1
    (folder / "model.safetensors").write_bytes(whole)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_no_weights, r"has no model\.safetensors"),
        (_other_settings, r"config\.json has other settings than model\.safetensors"),
        (_cut, "is not a complete safetensors file"),
        (_flipped, "is damaged"),
    ],
)
def test_a_spoilt_folder_is_refused_in_a_sentence(
    written: Path, spoil: object, complaint: str
) -> None:
    assert callable(spoil)
    spoil(written)
    with pytest.raises(SolarError, match=complaint):
        load(written, device="cpu")
