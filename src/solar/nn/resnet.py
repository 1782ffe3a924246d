"""ResNet trunks with places for second-order attention."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from solar.nn.soa import Attend, SecondOrderAttention


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


class _Design(NamedTuple):
    block: type[BasicBlock] | type[Bottleneck]
    blocks: tuple[int, int, int, int]


DESIGNS = {
    18: _Design(BasicBlock, (2, 2, 2, 2)),
    34: _Design(BasicBlock, (3, 4, 6, 3)),
    50: _Design(Bottleneck, (3, 4, 6, 3)),
    101: _Design(Bottleneck, (3, 4, 23, 3)),
    152: _Design(Bottleneck, (3, 8, 36, 3)),
}


class ResNet(nn.Module):
    """A ResNet without its classifier: parameter names are torchvision's, one to one.

    Args:
        depth: 18, 34, 50, 101 or 152.
        attention: Second-order attention after conv3_x, conv4_x or conv5_x: layer number to channel
            reduction, for example `{4: 4, 5: 2}`. The blocks are called `soa3`, `soa4`, `soa5`.
    """

    stride = 32
    attention_layers = (3, 4, 5)
    attention_strides: ClassVar[Mapping[int, int]] = {3: 8, 4: 16, 5: 32}

    def __init__(self, depth: int, attention: Mapping[int, int] | None = None) -> None:
        super().__init__()
        block, blocks = DESIGNS[depth]
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = 64
        for number, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True), 1):
            stage = _stage(block, channels, width, count, stride=1 if number == 1 else 2)
            self.add_module(f"layer{number}", stage)
            channels = width * block.expansion
            reduction = (attention or {}).get(number + 1)
            if reduction is not None:  # layer 1 is the paper's conv2_x, and so on
                self.add_module(f"soa{number + 1}", SecondOrderAttention(channels, reduction))
        self.channels = channels
        self._initialise()

    def _initialise(self) -> None:
        for name, module in self.named_modules():
            if isinstance(module, nn.Conv2d) and not name.startswith("soa"):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, 3, h, w) to (b, channels, ⌈h / 32⌉, ⌈w / 32⌉)."""
        return self.run(x, lambda layer, block, x: block(x))

    def attend(self, x: Tensor, *, drawn: bool = True) -> tuple[Tensor, dict[int, Tensor]]:
        """Run as `forward` does, and keep every attention map.

        Args:
            x: Images.
            drawn: The flatter scale of the paper's pictures, in every block on the way, as the
                published drawing code does. The feature map is then not the descriptor's.

        Returns:
            The feature map, and by layer number the (b, n, n) maps over its n locations.
        """
        maps: dict[int, Tensor] = {}

        def keep(layer: int, block: SecondOrderAttention, x: Tensor) -> Tensor:
            x, maps[layer] = block.attend(x, drawn=drawn)
            return x

        return self.run(x, keep), maps

    def run(self, x: Tensor, attend: Attend) -> Tensor:
        """Run as `forward` does, with `attend` in the place of every attention block."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in (2, 3, 4, 5):
            x = self.get_submodule(f"layer{number - 1}")(x)
            block = self._modules.get(f"soa{number}")
            if isinstance(block, SecondOrderAttention):
                x = attend(number, block, x)
        return x


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
