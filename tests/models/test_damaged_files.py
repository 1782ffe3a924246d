from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from support.drawn import drawn_checkpoint, drawn_state

from solar.errors import SolarError
from solar.models import (
    PatchNet,
    RetrievalConfig,
    RetrievalNet,
    fingerprint,
    load,
    load_whitening,
    save,
)


@pytest.fixture(scope="module")
def net() -> PatchNet:
    torch.manual_seed(0)
    return PatchNet()


@pytest.fixture(scope="module")
def content(net: PatchNet, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return save(net, tmp_path_factory.mktemp("saved") / "net.safetensors", half=True).read_bytes()


def flipped(content: bytes, place: int, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[place] ^= 1 << bit
    return bytes(damaged)


def test_a_flipped_bit_in_our_weights_is_found(tmp_path: Path, content: bytes) -> None:
    path, generator = tmp_path / "net.safetensors", np.random.default_rng(0)
    start = 8 + int.from_bytes(content[:8], "little")
    for place in generator.integers(start, len(content), 40):
        path.write_bytes(flipped(content, place, generator.integers(8)))
        with pytest.raises(SolarError, match=r"net\.safetensors is damaged"):
            load(path, device="cpu")


def test_a_flipped_bit_in_the_header_gives_a_sentence_or_the_same_network(
    tmp_path: Path, net: PatchNet, content: bytes
) -> None:
    path, generator, refused = tmp_path / "net.safetensors", np.random.default_rng(1), 0
    path.write_bytes(content)
    right, start = fingerprint(load(path)), 8 + int.from_bytes(content[:8], "little")
    places = [content.index(b"solar_sha256"), content.index(b"dropout") + 3]
    for place in (*places, *generator.integers(0, start, 60)):
        path.write_bytes(flipped(content, place, generator.integers(8)))
        try:
            assert fingerprint(load(path, device="cpu")) == right
        except SolarError:
            refused += 1
    assert refused > 55


def test_files_without_a_digest_still_load(tmp_path: Path, net: PatchNet, content: bytes) -> None:
    path, old = tmp_path / "net.safetensors", tmp_path / "old.safetensors"
    path.write_bytes(content)
    with safe_open(path, framework="pt") as file:
        header = {k: v for k, v in file.metadata().items() if k != "solar_sha256"}
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    assert set(header) == {"format", "version", "task", "config"}
    save_file(state, old, metadata=header)
    assert fingerprint(load(old)) == fingerprint(load(path))


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, number: float) -> None:
    net = PatchNet()
    net.trunk.layer7[0].weight.data[1, 2, 0, 0] = number
    path = save(net, tmp_path / "net.safetensors")
    with pytest.raises(SolarError, match=r"safetensors.*NaN.*trunk\.layer7\.0\.weight"):
        load(path)


def test_published_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    state = drawn_state(PatchNet(), "local")
    name = next(name for name in state if name.endswith("running_var"))
    state[name][0] = torch.nan
    torch.save(state, tmp_path / "net.pth")
    with pytest.raises(SolarError, match=rf"NaN.* {name}"):
        load(tmp_path / "net.pth")


def test_large_numbers_whose_sum_overflows_are_numbers(tmp_path: Path) -> None:
    net = PatchNet()
    net.trunk.layer7[0].weight.data[:, :, 0, 0] = 3e38
    assert load(save(net, tmp_path / "net.safetensors")) is not None


def nan(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.full(shape, torch.nan)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"weight": nan((4, 4)), "bias": torch.zeros(4)}, "infinite or NaN values in weight"),
        ({"m": torch.zeros(4), "P": nan((4, 4))}, "infinite or NaN values in weight"),
        ({"weight": [1], "bias": None}, "does not hold a whitening layer"),
        ({"m": "a", "P": {}}, "does not hold a whitening layer"),
        ([1], "does not hold a whitening layer"),
    ],
)
def test_whitening_layers_are_checked_as_well(tmp_path: Path, content: Any, sentence: str) -> None:
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(SolarError, match=sentence):
        load_whitening(tmp_path / "w.pth")


def test_a_whitening_that_makes_no_sense_gets_a_sentence(tmp_path: Path) -> None:
    checkpoint = drawn_checkpoint(RetrievalNet(RetrievalConfig("resnet18", whitening=False)), "gem")
    checkpoint["meta"]["Lw"] = {"retrieval-SfM-120k": {"ss": {"m": "x", "P": 3}, "ms": {}}}
    torch.save(checkpoint, tmp_path / "net.pth")
    with pytest.raises(SolarError, match=r"net\.pth.*\w+Error"):
        load(tmp_path / "net.pth")


@pytest.mark.parametrize("task", ["retrieval", "patches"])
@pytest.mark.parametrize(
    "config", ["[1]", '"a"', '{"attention": "x"}', '{"attention": {"5": -1}}', '{"scales": 3}']
)
def test_settings_that_make_no_sense_get_a_sentence(tmp_path: Path, task: str, config: str) -> None:
    header = {"format": "solar", "version": "1", "task": task, "config": config}
    save_file({"a": torch.zeros(1)}, tmp_path / "odd.safetensors", metadata=header)
    with pytest.raises(SolarError) as caught:
        load(tmp_path / "odd.safetensors")
    assert "\n" not in str(caught.value)
