"""Convolutions of a frozen network, faster: batch norms folded in, more work in each kernel.

A ResNet on a GPU waits for its memory more than for its arithmetic. With bias, residual sum and
ReLU inside the convolution's own kernel, a feature map crosses the memory once per layer instead of
two or three times: of all that makes describing fast, this gains most (docs/performance.md).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights


class FusedConv(nn.Module):
    """A convolution with its batch norm folded in, and perhaps residual and ReLU in its kernel."""

    weight: Tensor
    bias: Tensor | None
    padding: tuple[int, ...]

    def __init__(
        self, conv: nn.Conv2d, norm: nn.BatchNorm2d | None = None, *, relu: bool = False
    ) -> None:
        super().__init__()
        self.weight, self.bias = _copied(conv) if norm is None else _folded(conv, norm)
        self.stride, self.relu = conv.stride, relu
        assert not isinstance(conv.padding, str)
        self.padding = conv.padding

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Shape: as the convolution's; `residual` as the output."""
        if x.is_cuda and self.relu and not x.requires_grad:  # the fused kernels have no gradient
            w, b, one = self.weight, self.bias, (1, 1)
            if residual is None:
                return torch.cudnn_convolution_relu(x, w, b, self.stride, self.padding, one, 1)
            return torch.cudnn_convolution_add_relu(
                x, w, residual, 1.0, b, self.stride, self.padding, one, 1
            )
        y = F.conv2d(x, self.weight, self.bias, self.stride, self.padding)
        y = y if residual is None else y.add_(residual)
        return y.relu_() if self.relu else y


class FusedStem(nn.Module):
    """A 7×7 convolution of stride 2 and the maximum pooling after it.

    Three channels feed a matrix unit badly. With every 2×2 pixels as one location of 16 channels
    (four of them zero), the 7×7 convolution of stride 2 is a 4×4 one of stride 1.
    """

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d, *, on_blocks: bool) -> None:
        super().__init__()
        self.on_blocks = on_blocks
        self.conv = FusedConv(conv, norm, relu=True)
        if on_blocks:
            # A row and a column of zeros make the kernel 8×8, which splits into 2×2 blocks evenly.
            weight = F.pixel_unshuffle(F.pad(self.conv.weight, (1, 0, 1, 0)), 2)
            self.conv.weight = nn.Parameter(F.pad(weight, (0, 0, 0, 0, 0, 4)))
            self.conv.stride, self.conv.padding = (1, 1), (0, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, 3, h, w), or blocks of it, to (b, 64, about h / 4, about w / 4)."""
        x = self.conv(x.to(self.conv.weight.dtype, memory_format=torch.channels_last))
        if x.is_cuda and self.on_blocks:
            from solar.nn import kernels

            return kernels.max_pool(x)
        return F.max_pool2d(x, 3, stride=2, padding=1)


def to_blocks(images: Tensor) -> Tensor:
    """(b, 3, h, w) to (b, 16, ⌈h / 2⌉ + 3, ⌈w / 2⌉ + 3): 2×2 pixels per location, zeros around."""
    h, w = images.shape[2:]
    images = F.pad(images, (4, 2 + w % 2, 4, 2 + h % 2))
    return F.pad(F.pixel_unshuffle(images, 2), (0, 0, 0, 0, 0, 4))


def folded(head: nn.Sequential, *, relu: bool = False) -> FusedConv:
    """The convolution and the batch norm that a row of layers starts with."""
    conv, norm = head[0], head[1]
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(norm, nn.BatchNorm2d)
    return FusedConv(conv, norm, relu=relu)


def _copied(conv: nn.Conv2d) -> tuple[nn.Parameter, nn.Parameter | None]:
    bias = None if conv.bias is None else nn.Parameter(conv.bias.detach().clone())
    return nn.Parameter(conv.weight.detach().clone()), bias


def _folded(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[nn.Parameter, nn.Parameter]:
    """Weight and bias with the batch norm in them; no more is copied than that."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    return fuse_conv_bn_weights(
        conv.weight,
        conv.bias,
        norm.running_mean,
        norm.running_var,
        norm.eps,
        norm.weight,
        norm.bias,
    )


def move_bias(source: FusedConv, target: FusedConv, through: Tensor | None = None) -> None:
    """Let `target`, linear in the output of `source`, add its bias as well: `source` has none then.

    `through` is the matrix (out, in) that the bias passes on its way; none for a plain sum.
    """
    assert source.bias is not None
    assert target.bias is not None
    bias = source.bias if through is None else through @ source.bias
    target.bias, source.bias = nn.Parameter(target.bias + bias), None
