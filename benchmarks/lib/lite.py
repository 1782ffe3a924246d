"""EfficientNet-lite0, alone and beside a ResNet: backbones that are tried, not bundled.

Batch norms are folded into the convolutions. Strides pad on both sides, as in a ResNet, where
TensorFlow pads below and on the right: so the maps of both networks are aligned.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn

from solar.nn import BACKBONES
from solar.nn.backbones.backbone import Backbone, RunAttention
from solar.nn.backbones.convolutional import ResNet

# Kernel, stride of the first, expansion, channels and number of the blocks of each kind, by stage.
_STAGES = (
    ((3, 1, 1, 16, 1), (3, 2, 6, 24, 2)),
    ((5, 2, 6, 40, 2),),
    ((3, 2, 6, 80, 3), (5, 1, 6, 112, 3)),
    ((5, 2, 6, 192, 4), (3, 1, 6, 320, 1)),
)
_CHANNELS = 1280


class InvertedBlock(nn.Module):
    """Expand, look around in every channel, reduce; around a shortcut where the shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.expand = nn.Identity() if expansion == 1 else _convolution(inputs, width)
        self.depthwise = _convolution(width, width, kernel, stride, groups=width)
        self.project = nn.Conv2d(width, outputs, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, inputs, h, w) to (b, outputs, ⌈h / stride⌉, ⌈w / stride⌉)."""
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


def _convolution(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups)
    return nn.Sequential(conv, nn.ReLU6())


class EfficientNetLite(Backbone):
    """EfficientNet-lite0 without its classifier: 3.4 M parameters, half a ResNet-18's time.

    Attention goes after strides 8, 16 and 32, as in a ResNet.

    Shape: (b, 3, h, w) to (b, 1280, ⌈h / 32⌉, ⌈w / 32⌉).
    """

    attention_strides: Mapping[int, int] = {3: 8, 4: 16, 5: 32}

    def __init__(self, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(attention)
        self.channels = 32
        self.add_stage("stem", _convolution(3, self.channels, 3, 2))
        for number, kinds in enumerate(_STAGES, 1):
            layers: list[nn.Module] = []
            for kernel, stride, expansion, outputs, count in kinds:
                for turn in range(count):
                    step = 1 if turn else stride
                    layers.append(InvertedBlock(self.channels, outputs, kernel, step, expansion))
                    self.channels = outputs
            if number == len(_STAGES):
                layers.append(_convolution(self.channels, _CHANNELS))
                self.channels = _CHANNELS
            self.add_stage(f"layer{number}", nn.Sequential(*layers))
            self.add_attention(number + 1, self.channels)


class ResNetBesideLite(ResNet):
    """A ResNet, with its attention, and an EfficientNet-lite0: the channels of both maps."""

    fusable = takes_blocks = False  # the stages are the ResNet's alone

    def __init__(self, depth: int, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(depth, attention)
        self.beside = EfficientNetLite()
        self.channels += self.beside.channels

    def run(self, x: Tensor, attend: RunAttention) -> Tensor:
        """Shape: (b, 3, h, w) to (b, channels of both, ⌈h / 32⌉, ⌈w / 32⌉)."""
        return torch.cat([super().run(x, attend), self.beside(x)], dim=1)


BACKBONES["lite0"] = EfficientNetLite
BACKBONES["resnet18+lite0"] = partial(ResNetBesideLite, 18)
