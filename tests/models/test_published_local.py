"""Published files of HOW and of DELG's PyTorch port."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.golden2 import FOLDER, drawn
from torch import Tensor

from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet, convert, fingerprint, load
from solar.models.published import published_names
from solar.models.published_local import delg_name
from solar.nn.backbone import without_drawing

KEYS: dict[str, list[int]] = json.loads((FOLDER / "how_r18_keys.json").read_text())
LOCAL: dict[str, Any] = {"whitening": False, "scales": (1.0,)}


def written(path: Path, state: dict[str, Tensor], **more: Any) -> Path:
    torch.save({"epoch": 7, "_version": "how/2020", **more, "state_dict": state}, path)
    return path


def small_how() -> dict[str, Tensor]:
    """The last stage left out, as HOW's R50 has it."""
    net = RetrievalNet(RetrievalConfig("resnet18-conv4", pooling="how", **LOCAL))
    names = published_names(net.state_dict(), "how")
    return {their: drawn(their, tuple(net.state_dict()[our].shape)) for our, their in names.items()}


def test_a_how_network_has_the_published_tensors(tmp_path: Path) -> None:
    net = RetrievalNet(RetrievalConfig("resnet18", pooling="how", **LOCAL))
    names = published_names(net.state_dict(), "how")
    assert {t: list(net.state_dict()[o].shape) for o, t in names.items()} == KEYS


def test_how_without_its_last_stage_is_told_from_its_tensors(tmp_path: Path) -> None:
    state = small_how()
    settings = {"architecture": "resnet18", "skip_layer": 1}
    settings["runtime"] = {"mean_std": [[0.5, 0.5, 0.5], [0.25, 0.25, 0.25]]}
    net = load(written(tmp_path / "how.pth", state, net_params=settings, meta={}), device="cpu")
    assert (net.config.backbone, net.config.pooling) == ("resnet18-conv4", "how")
    assert (net.config.mean, net.config.std) == ((0.5,) * 3, (0.25,) * 3)
    assert (net.dim, net.backbone.stride) == (128, 16)
    assert torch.equal(net.pool.reduce.weight, state["dim_reduction.weight"])
    convert(tmp_path / "how.pth", tmp_path / "how.safetensors")
    assert fingerprint(load(tmp_path / "how.safetensors", device="cpu")) == fingerprint(net)


@pytest.fixture(scope="module")
def delg() -> dict[str, Tensor]:
    """A file of the port, with the parts that its local branch has no use for."""
    with without_drawing():
        net = RetrievalNet(RetrievalConfig("resnet50-conv4", pooling="delg", **LOCAL))
    assert net.backbone.channels == 1024
    shapes = {delg_name(name): value.shape for name, value in net.state_dict().items()}
    state = {name: torch.rand(shape) for name, shape in shapes.items()}
    unused = {
        "globalmodel.s4.b1.f.a.weight": (512, 1024, 1, 1),
        "globalmodel.head.fc.weight": (512, 2048),
        "desc_cls.weight": (7, 512),
        "att_cls.fc.weight": (7, 512),
    }
    return {**state, **{name: torch.zeros(shape) for name, shape in unused.items()}}


def test_names_of_the_port(delg: dict[str, Tensor]) -> None:
    for name in (
        "globalmodel.stem.conv.weight",
        "globalmodel.stem.bn.running_mean",
        "globalmodel.s1.b1.proj.weight",
        "globalmodel.s1.b1.bn.weight",
        "globalmodel.s3.b6.f.c_bn.running_var",
        "localmodel.conv1.weight",
        "localmodel.bn.bias",
        "localmodel.conv2.bias",
    ):
        assert name in delg


def test_the_port_is_read_and_takes_red_first(tmp_path: Path, delg: dict[str, Tensor]) -> None:
    torch.save({"model_state": delg, "epoch": 3}, tmp_path / "delg.pyth")
    net = load(tmp_path / "delg.pyth", device="cpu")
    assert (net.config.backbone, net.config.pooling, net.dim) == ("resnet50-conv4", "delg", 512)
    stem = delg["globalmodel.stem.conv.weight"]
    assert torch.equal(net.backbone.conv1.weight, stem[:, [2, 1, 0]])
    assert torch.equal(net.pool.attention.conv2.weight, delg["localmodel.conv2.weight"])
    assert torch.equal(net.backbone.layer2[3].bn3.bias, delg["globalmodel.s2.b4.f.c_bn.bias"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s.pop("dim_reduction.bias"), "missing dim_reduction.bias"),
        (lambda s: s.update({"dim_reduction.weight": torch.zeros(64, 256, 1, 1)}), "is needed"),
        (lambda s: s.update({"features.9.weight": torch.zeros(1)}), "unexpected features.9.weight"),
        (lambda s: s["dim_reduction.bias"].fill_(float("nan")), "not finite|no number|NaN"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path: Path, change: Any, complaint: str) -> None:
    state = {name: value.clone() for name, value in small_how().items()}
    change(state)
    with pytest.raises(SolarError) as caught:
        load(written(tmp_path / "bad.pth", state), device="cpu")
    assert re.search(complaint, str(caught.value)), caught.value


def test_they_are_written_as_ours_alone(tmp_path: Path) -> None:
    written(tmp_path / "how.pth", small_how())
    with pytest.raises(SolarError, match=r"pool by how can only be written as \.safetensors"):
        convert(tmp_path / "how.pth", tmp_path / "again.pth")
