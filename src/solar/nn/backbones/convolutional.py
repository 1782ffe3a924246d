"""ResNets, plain and fused, and the VGG-16 and AlexNet of the paper's older rows.

Parameter names are torchvision's.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from solar.nn.backbones.backbone import Backbone
from solar.nn.fused import FusedConv, FusedStem, folded, move_bias


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut (ResNet-18 and -34)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, inputs, h, w) to (b, width, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        out: Tensor = self.relu(x + shortcut)
        return out


class Bottleneck(nn.Module):
    """1×1, 3×3 (which carries the stride), 1×1 around a shortcut (ResNet-50, -101, -152)."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, inputs, h, w) to (b, 4·width, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        out: Tensor = self.relu(x + shortcut)
        return out


# By depth: the kind of block, and the blocks of each of the four stages.
DESIGNS: dict[int, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, ...]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
    152: (Bottleneck, (3, 8, 36, 3)),
}


class ResNet(Backbone):
    """A ResNet without its classifier.

    Attention goes after conv3_x, conv4_x or conv5_x: `{4: 4, 5: 2}`, for example. `last=4` leaves
    conv5_x out.
    """

    attention_strides: Mapping[int, int] = {3: 8, 4: 16, 5: 32}
    fusable = takes_blocks = True

    def __init__(
        self, depth: int, attention: Mapping[int, int] | None = None, last: int = 5
    ) -> None:
        places = {
            layer: stride for layer, stride in self.attention_strides.items() if layer <= last
        }
        super().__init__(attention, places)
        self.stride = places[last]
        block, blocks = DESIGNS[depth]
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.add_stage("stem", ("conv1", "bn1", "relu", "maxpool"))
        self.channels = 64
        widths = (64, 128, 256, 512)[: last - 1]
        for number, (count, width) in enumerate(zip(blocks, widths, strict=False), 1):
            stage = _stage(block, self.channels, width, count, stride=1 if number == 1 else 2)
            self.add_stage(f"layer{number}", stage)
            self.channels = width * block.expansion
            self.add_attention(number + 1, self.channels)  # layer 1 is the paper's conv2_x
        for name, module in self.named_modules():
            if isinstance(module, nn.Conv2d) and not name.startswith("soa"):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def fuse_stage(
        self, name: str, part: nn.Module, *, on_blocks: bool = False, clamped: bool = False
    ) -> nn.Module:
        """The stem, or a row of residual blocks, with every sum inside a convolution."""
        if name == "stem":
            return FusedStem(self.conv1, self.bn1, on_blocks=on_blocks)
        if isinstance(part, nn.Sequential):
            return nn.Sequential(*(FusedBlock(block) for block in part))  # type: ignore[arg-type]
        return super().fuse_stage(name, part, clamped=clamped)


def _stage(
    block: type[BasicBlock] | type[Bottleneck], inputs: int, width: int, count: int, stride: int
) -> nn.Sequential:
    outputs = width * block.expansion
    downsample = None
    if stride != 1 or inputs != outputs:
        downsample = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )
    first = block(inputs, width, stride, downsample)
    return nn.Sequential(first, *(block(outputs, width, 1, None) for _ in range(count - 1)))


class FusedBlock(nn.Module):
    """A residual block: the sum and its ReLU happen in the last convolution."""

    def __init__(self, block: BasicBlock | Bottleneck) -> None:
        super().__init__()
        pairs = [(block.conv1, block.bn1), (block.conv2, block.bn2)]
        if isinstance(block, Bottleneck):
            pairs.append((block.conv3, block.bn3))
        *first, last = (FusedConv(conv, norm, relu=True) for conv, norm in pairs)
        self.first, self.last = nn.Sequential(*first), last
        self.shortcut: FusedConv | None = None
        if isinstance(block.downsample, nn.Sequential):
            self.shortcut = folded(block.downsample)
            move_bias(self.shortcut, self.last)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: as the block's."""
        residual = x if self.shortcut is None else self.shortcut(x)
        out: Tensor = self.last(self.first(x), residual)
        return out


class VGG16(Backbone):
    """VGG-16's convolutions without the last pooling.

    Shape: (b, 3, h, w) to (b, 512, ⌊h / 16⌋, ⌊w / 16⌋).
    """

    channels = 512
    least_side = stride = 16
    first = 8.0

    def __init__(self, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(attention)
        layers: list[nn.Module] = []
        inputs = 3
        for group in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
            if layers:
                layers.append(nn.MaxPool2d(2))
            for outputs in group:
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = outputs
        self.add_stage("features", nn.Sequential(*layers))


class AlexNet(Backbone):
    """AlexNet's convolutions without the last pooling.

    Shape: (b, 3, h, w) to (b, 256, about h / 16, about w / 16).
    """

    channels = 256
    least_side = 31
    stride = 16
    first = 15.5

    def __init__(self, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(attention)
        layers: list[nn.Module] = []
        for inputs, outputs, kernel, stride in ((3, 64, 11, 4), (64, 192, 5, 1)):
            conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=2)
            layers += [conv, nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2)]
        for inputs, outputs in ((192, 384), (384, 256), (256, 256)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
        self.add_stage("features", nn.Sequential(*layers))
