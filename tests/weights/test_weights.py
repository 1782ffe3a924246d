import hashlib
from pathlib import Path

import pytest
import torch
from support.boxed import needs_weights

import solar
from solar import weights
from solar.errors import SolarError
from solar.models import PatchNet, RetrievalNet, zoo
from solar.nn import LocalPooling

ROOT = Path(__file__).parents[2]
MOST = {"retrieval": 30e6, "local": 6e6, "patches": 4e6}


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("name", weights.NAMES)
def test_the_file_is_the_one_on_the_card(name: str) -> None:
    content = (weights.FOLDER / f"{name}.safetensors").read_bytes()
    told = weights.facts(name)
    assert {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    } == told["file"]
    assert told["file"]["sha256"] in weights.card(name)
    assert len(content) <= MOST[told["task"]]


@pytest.mark.parametrize("name", weights.NAMES)
def test_the_card_says_what_was_measured(name: str) -> None:
    from lib.card_text import render

    every = {one: weights.facts(one) for one in weights.NAMES}
    assert render(weights.card(name), name, every) == weights.card(name)
    for heading in ("Use", "Results", "Training data", "Known limitations"):
        assert f"\n## {heading}\n" in weights.card(name)


@needs_weights
@pytest.mark.parametrize("name", weights.NAMES)
def test_a_model_in_the_box_loads_by_its_name_in_full_precision(name: str) -> None:
    net, entry = solar.load(name, device="cpu"), zoo.find(name)
    assert {tensor.dtype for tensor in net.parameters()} == {torch.float32}
    assert sum(tensor.numel() for tensor in net.parameters()) == entry.parameters
    assert (net.dim, net.source) == (entry.dim, name)


@needs_weights
def test_no_name_gives_the_small_network_with_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "solar-lite0").mkdir()  # a folder of that name is somebody's run, not the model
    monkeypatch.chdir(tmp_path)
    net = solar.load()
    assert isinstance(net, RetrievalNet)
    assert net.source == "solar-lite0"
    assert set(net.config.attention) == {4, 5}


@needs_weights
@pytest.mark.parametrize("name", weights.NAMES)
def test_the_toy_landmarks_are_found_as_well_as_the_card_promises(name: str) -> None:
    from cards import toy_local, toy_patches, toy_photos

    from solar.evaluation.protocols.patch_describers import patch_describer

    net, floor = solar.load(name, device="cpu"), weights.facts(name)["toy_floor"]
    assert f"at least **{floor:g}**" in weights.card(name)
    if isinstance(net, PatchNet):
        assert toy_patches(patch_describer(net))["matching"] >= floor
    elif isinstance(net.pool, LocalPooling):
        assert toy_local(name)["mAP"] >= floor
    else:
        assert toy_photos(net)["mAP"] >= floor


def test_an_installation_without_the_files_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "solar-local-none"
    told = (weights.FOLDER / f"{name}.json").read_text(encoding="utf-8")
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    zoo.models.cache_clear()
    zoo._names.cache_clear()
    try:
        for ask in (solar.load, lambda: weights.facts(name), lambda: weights.card(name)):
            with pytest.raises(SolarError, match=r"should have come with solar.*install solar ag"):
                ask()
        assert not any(entry.bundled for entry in zoo.models())
        (tmp_path / f"{name}.json").write_text(told)
        zoo.models.cache_clear()
        zoo._names.cache_clear()
        with pytest.raises(SolarError, match=f"{name} should have come with solar"):
            solar.load(name)
    finally:
        zoo.models.cache_clear()
        zoo._names.cache_clear()


def test_damaged_facts_are_as_if_they_were_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    assert weights.probabilities() == {}
    for name in ("probabilities", "solar-lite0"):
        (tmp_path / f"{name}.json").write_text('{"cut o')
    assert weights.probabilities() == {}
    with pytest.raises(SolarError, match="solar-lite0 should have come with solar"):
        weights.facts("solar-lite0")
