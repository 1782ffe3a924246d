"""The ResNet-50 of TensorFlow.js that `benchmarks/ablation.py` starts from."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from solar.models import RetrievalConfig, RetrievalNet

ROOT = Path(__file__).parents[2]


@pytest.fixture
def imagenet(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from lib import imagenet

    return imagenet


def keras_layer(name: str, out: int, channels: int, side: int) -> dict[str, Tensor]:
    return {
        f"{name}_bn/gamma": torch.randn(out),
        f"{name}_bn/beta": torch.randn(out),
        f"{name}_bn/moving_mean": torch.randn(out),
        f"{name}_bn/moving_variance": torch.rand(out) / 100,
        f"{name}_conv/kernel": torch.randn(side, side, channels, out),
        f"{name}_conv/bias": torch.randn(out),
    }


def write_package(path: Path, weights: dict[str, Tensor], shard: int) -> None:
    raw = b"".join(value.numpy().tobytes() for value in weights.values())
    shards = {f"{n}.bin": raw[n * shard : (n + 1) * shard] for n in range(-(-len(raw) // shard))}
    listed = [{"name": name, "shape": list(value.shape)} for name, value in weights.items()]
    spec = {"weightsManifest": [{"paths": list(shards), "weights": listed}]}
    with tarfile.open(path, "w:gz") as package:
        for name, content in {"model.json": json.dumps(spec).encode(), **shards}.items():
            member = tarfile.TarInfo(f"package/model/{name}")
            member.size = len(content)
            package.addfile(member, io.BytesIO(content))


def test_layers_of_the_package_do_as_in_keras(
    imagenet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    weights = {**keras_layer("conv1", 4, 3, 7), **keras_layer("conv4_block2_3", 5, 2, 1)}
    file = tmp_path / f"{imagenet.PACKAGE}-{imagenet.VERSION}.tgz"
    write_package(file, weights, shard=1000)
    monkeypatch.setattr(imagenet, "SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
    state = imagenet.resnet50(tmp_path)
    for name, conv, norm in (
        ("conv1", "conv1", "bn1"),
        ("conv4_block2_3", "layer3.1.conv3", "layer3.1.bn3"),
    ):
        x = torch.randn(2, weights[f"{name}_conv/kernel"].shape[2], 9, 9)
        found = F.batch_norm(
            F.conv2d(x.flip(1) if name == "conv1" else x, state[f"{conv}.weight"]),
            *(state[f"{norm}.{part}"] for part in ("running_mean", "running_var")),
            *(state[f"{norm}.{part}"] for part in ("weight", "bias")),
        )
        gamma, beta, mean, variance, kernel, bias = (
            weights[f"{name}_{part}"]
            for part in (
                *("bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance"),
                *("conv/kernel", "conv/bias"),
            )
        )
        after = F.conv2d(x, kernel.permute(3, 2, 0, 1), bias).movedim(1, -1)
        expected = gamma * (after - mean) / (variance + 1.001e-5).sqrt() + beta
        torch.testing.assert_close(found.movedim(1, -1), expected, rtol=1e-4, atol=1e-3)


def test_every_layer_of_the_backbone_has_a_name_in_keras(imagenet: Any) -> None:
    blocks = {2: 3, 3: 4, 4: 6, 5: 3}
    names = [
        f"conv{stage}_block{block + 1}_{part}"
        for stage, count in blocks.items()
        for block in range(count)
        for part in range(0 if block == 0 else 1, 4)
    ]
    found = {part for name in ["conv1", *names] for part in imagenet.ours(name)}
    with torch.device("meta"):
        net = RetrievalNet(RetrievalConfig("resnet50"))
    named = [name for name, _ in net.backbone.named_parameters()]
    assert found == {name.removesuffix(".weight") for name in named if name.endswith(".weight")}


def test_stages_stride_in_their_first_convolution(imagenet: Any) -> None:
    with torch.device("meta"):
        plain = RetrievalNet(RetrievalConfig("resnet50", **imagenet.INPUT))
        state = {key: torch.empty_like(value) for key, value in plain.backbone.state_dict().items()}
        net = imagenet.on_backbone(plain.config, state)
    for stage in ("layer2", "layer3", "layer4"):
        first = net.backbone.get_submodule(stage + ".0")
        assert (first.conv1.stride, first.conv2.stride) == ((2, 2), (1, 1))
        assert first.downsample[0].stride == (2, 2)
