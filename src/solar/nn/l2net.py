"""L2-Net, the patch network of SOSNet, with places for second-order attention."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Literal

import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.nn.backbones.backbone import Backbone, RunAttention
from solar.nn.fused import folded

PUBLISHED_LAYERS = ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1))
"""Output channels and stride of the six 3×3 convolutions."""

_MOST_CHANNELS = 1024
_FIRST_ATTENTION = 3
DropoutPlace = Literal["before", "after"]


class L2Net(Backbone):
    """Seven convolutions that turn grey patches (n, 1, 32, 32) into rows (n, 128) of unit norm.

    Each patch is standardised first. Dropout goes "before" the last convolution, as in the paper,
    or "after" it, as in its published code. For other layers see `check_layers`.
    """

    channels = 128
    fusable = True

    def __init__(
        self,
        attention: Mapping[int, int] | None = None,
        dropout: float = 0.1,
        dropout_place: DropoutPlace = "before",
        layers: Sequence[tuple[int, int]] = PUBLISHED_LAYERS,
    ) -> None:
        check_layers(layers)
        strides = enumerate(accumulate((stride for _, stride in layers), mul), 1)
        super().__init__(
            attention, {layer: stride for layer, stride in strides if layer >= _FIRST_ATTENTION}
        )
        self.dropout_place = dropout_place
        self.standardise = nn.InstanceNorm2d(1)
        inputs = 1
        for number, (outputs, stride) in enumerate(layers, 1):
            conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
            norm = nn.BatchNorm2d(outputs, affine=False)
            self.add_stage(f"layer{number}", nn.Sequential(conv, norm, nn.ReLU(inplace=True)))
            self.add_attention(number, outputs, init="orthogonal")
            inputs = outputs
        self.dropout = nn.Dropout(dropout)
        self.layer7 = nn.Sequential(
            nn.Conv2d(inputs, 128, 8, bias=False), nn.BatchNorm2d(128, affine=False)
        )
        for name, module in self.named_modules():
            if isinstance(module, nn.Conv2d) and not name.startswith("soa"):
                nn.init.orthogonal_(module.weight)

    def features(self, x: Tensor, attend: RunAttention | None = None) -> Tensor:
        """Patches (n, 1, 32, 32) to the feature maps (n, channels, 8, 8) before the last layer."""
        return super().run(self.standardise(x), attend or (lambda layer, block, x: block(x)))

    def run(self, x: Tensor, attend: RunAttention) -> Tensor:
        """See `Backbone.run`."""
        x = self.features(x, attend)
        before = self.dropout_place == "before"
        x = self.layer7(self.dropout(x)) if before else self.dropout(self.layer7(x))
        return unit(x.flatten(1))

    def fuse_stage(
        self, name: str, part: nn.Module, *, on_blocks: bool = False, clamped: bool = False
    ) -> nn.Module:
        """The first six convolutions, each with its batch norm and ReLU inside."""
        if isinstance(part, nn.Sequential):
            return folded(part, relu=True)
        return super().fuse_stage(name, part)


def check_layers(layers: Sequence[tuple[int, int]]) -> None:
    """A SolarError unless there are six layers of 1 to 1024 channels, two of them with stride 2."""
    whole = all(isinstance(number, int) for layer in layers for number in layer)
    fit = whole and all(1 <= channels <= _MOST_CHANNELS for channels, _ in layers)
    if not fit or sorted(stride for _, stride in layers) != [1, 1, 1, 1, 2, 2]:
        raise SolarError(
            "A patch network has six layers (channels, stride), two of them with stride 2 and none "
            f"with more than {_MOST_CHANNELS} channels, not {list(layers)}."
        )


def unit(x: Tensor) -> Tensor:
    """Rows (n, d) of unit norm.

    The published local response norm over all channels is an L2 norm; its tiny offset keeps an
    all-zero descriptor finite.
    """
    x = x + 1e-10
    norm: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / norm
