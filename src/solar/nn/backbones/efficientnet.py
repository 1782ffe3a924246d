"""EfficientNet-lite: small networks that start from real ImageNet weights.

Strides pad on both sides, as in a ResNet, where TensorFlow pads below and on the right: photos are
found better so, and maps of different networks are aligned.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from solar.nn.backbones.backbone import Backbone

# Of each kind of block: kernel, stride of the first, and expansion; by stage.
_KINDS = (
    ((3, 1, 1), (3, 2, 6)),
    ((5, 2, 6),),
    ((3, 2, 6), (5, 1, 6)),
    ((5, 2, 6), (3, 1, 6)),
)
# Channels and numbers of those blocks, by network.
LITE = {
    0: ((16, 24, 40, 80, 112, 192, 320), (1, 2, 2, 3, 3, 4, 1)),
    1: ((16, 24, 40, 80, 112, 192, 320), (1, 3, 3, 4, 4, 5, 1)),
    2: ((16, 24, 48, 88, 120, 208, 352), (1, 3, 3, 4, 4, 5, 1)),
}
_STEM, _HEAD = 32, 1280


class InvertedBlock(nn.Module):
    """Expand, convolve each channel by itself, reduce; a shortcut where the shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.expand = nn.Identity() if expansion == 1 else convolution(inputs, width)
        self.depthwise = convolution(width, width, kernel, stride, groups=width)
        self.project = convolution(width, outputs)[:2]  # without ReLU
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, inputs, h, w) to (b, outputs, ⌈h / stride⌉, ⌈w / stride⌉)."""
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


def convolution(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """A convolution, its batch norm, and ReLU6."""
    conv = nn.Conv2d(
        inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    return nn.Sequential(conv, nn.BatchNorm2d(outputs, eps=1e-3), nn.ReLU6(inplace=True))


class EfficientNetLite(Backbone):
    """EfficientNet-lite0, -lite1 or -lite2 without its classifier.

    Attention goes after the blocks of strides 8, 16 and 32, as in a ResNet; the last of them comes
    before the final 1×1 convolution, where the map has a quarter of the channels.

    Shape: (b, 3, h, w) to (b, 1280, ⌈h / 32⌉, ⌈w / 32⌉).
    """

    attention_strides: Mapping[int, int] = {3: 8, 4: 16, 5: 32}
    channels = _HEAD

    def __init__(self, number: int, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(attention)
        self.add_stage("stem", convolution(3, _STEM, 3, 2))
        kinds = iter(zip(*LITE[number], strict=True))
        inputs = _STEM
        for layer, stage in enumerate(_KINDS, 1):
            blocks: list[nn.Module] = []
            for kernel, stride, expansion in stage:
                outputs, count = next(kinds)
                for step in (stride, *[1] * (count - 1)):
                    blocks.append(InvertedBlock(inputs, outputs, kernel, step, expansion))
                    inputs = outputs
            self.add_stage(f"layer{layer}", nn.Sequential(*blocks))
            self.add_attention(layer + 1, inputs)  # layer 1 is of stride 4, the paper's conv2_x
        self.add_stage("head", convolution(inputs, _HEAD))
