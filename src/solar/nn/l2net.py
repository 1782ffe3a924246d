"""L2-Net, the patch network of SOSNet, with places for second-order attention."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from solar.nn.backbone import Backbone, RunAttention
from solar.nn.fused import folded

# (input channels, output channels, stride) of the six 3×3 convolutions.
_LAYERS = ((1, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1))

DropoutPlace = Literal["before", "after"]


class L2Net(Backbone):
    """Seven convolutions that turn grey patches (n, 1, 32, 32) into rows (n, 128) of unit norm.

    Patches may have any brightness range: each is standardised first. Dropout goes "before" the
    last convolution, as the paper says, or "after" it, as its published code has it.
    """

    channels = 128
    fusable = True
    attention_strides: Mapping[int, int] = {3: 2, 4: 2, 5: 4, 6: 4}

    def __init__(
        self,
        attention: Mapping[int, int] | None = None,
        dropout: float = 0.1,
        dropout_place: DropoutPlace = "before",
    ) -> None:
        super().__init__(attention)
        self.dropout_place = dropout_place
        self.standardise = nn.InstanceNorm2d(1)
        for number, (inputs, outputs, stride) in enumerate(_LAYERS, 1):
            conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
            norm = nn.BatchNorm2d(outputs, affine=False)
            self.add_stage(f"layer{number}", nn.Sequential(conv, norm, nn.ReLU(inplace=True)))
            self.add_attention(number, outputs, init="orthogonal")
        self.dropout = nn.Dropout(dropout)
        self.layer7 = nn.Sequential(
            nn.Conv2d(128, 128, 8, bias=False), nn.BatchNorm2d(128, affine=False)
        )
        for name, module in self.named_modules():
            if isinstance(module, nn.Conv2d) and not name.startswith("soa"):
                nn.init.orthogonal_(module.weight)

    def features(self, x: Tensor, attend: RunAttention | None = None) -> Tensor:
        """Patches (n, 1, 32, 32) to the feature maps (n, 128, 8, 8) before the last layer."""
        return super().run(self.standardise(x), attend or (lambda layer, block, x: block(x)))

    def run(self, x: Tensor, attend: RunAttention) -> Tensor:
        """Run as `forward` does, with `attend` in the place of every attention block."""
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


def unit(x: Tensor) -> Tensor:
    """The norm that patch descriptors end in: (n, d) to the same.

    The published local response norm with its window over all channels is an L2 norm; its tiny
    offset keeps an all-zero descriptor finite.
    """
    x = x + 1e-10
    norm: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / norm
