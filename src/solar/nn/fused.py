"""Frozen networks in fewer, larger steps, to describe photos faster.

A GPU waits for its memory more than for its arithmetic. So batch norms are folded into
convolutions, and biases, residual sums and activations happen inside the kernels that make a map:
it crosses the memory once per layer instead of two or three times. Of all that makes describing
fast, this gains most (docs/performance.md). Locations stay rows of channels-last memory, so that
nothing is copied.

In turn: convolutions of ResNets; second-order attention (`solar.nn.soa` is the plain way, which
also gives maps and can be exported).
"""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.fusion import fuse_conv_bn_weights

from solar.nn.soa import SecondOrderAttention, locations

# Fastest first; torch skips those that cannot run.
_CUDNN, _FLASH = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
_OTHERS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_FASTEST = [_CUDNN, _FLASH, *_OTHERS]
# Flash is the only one with a backward pass for heads of 256 channels.
_WITH_GRADIENTS = [_FLASH, _CUDNN, *_OTHERS]
_FUSED_HEAD = 256  # channels that a fused kernel of a GPU can take
_EXPLICIT_LOCATIONS = 4096  # beyond that, a map of all pairs takes too much memory


# Convolutions


class FusedConv(nn.Module):
    """A convolution with its batch norm folded in, and perhaps residual and ReLU in its kernel."""

    weight: Tensor
    bias: Tensor | None
    padding: tuple[int, ...]

    def __init__(self, conv: nn.Conv2d, norm: Any = None, *, relu: bool = False) -> None:
        super().__init__()
        own: Any = copy.deepcopy(conv)
        self.weight, self.bias = own.weight, own.bias
        if norm is not None:
            scale_shift = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
            self.weight, self.bias = fuse_conv_bn_weights(own.weight, own.bias, *scale_shift)
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
    layers: Any = head
    return FusedConv(layers[0], layers[1], relu=relu)


def move_bias(source: FusedConv, target: FusedConv, through: Tensor | None = None) -> None:
    """Move the bias of `source` to `target`, by the matrix (out, in) that it passes on its way."""
    assert source.bias is not None
    assert target.bias is not None
    bias = source.bias if through is None else through @ source.bias
    target.bias, source.bias = nn.Parameter(target.bias + bias), None


# Second-order attention


def attend(q: Tensor, k: Tensor, v: Tensor, *, gradients: bool = False) -> Tensor:
    """softmax(q·kᵀ / √m)·v, (b, n, m) each, by the fastest way on the device.

    A fused kernel holds no map of all pairs, and is fastest for conv4's 256 channels. None takes
    heads as wide as conv5's 1,024, and torch's fallback computes in float32: the map is written
    out instead, in the precision of the input. With `gradients`, kernels that are fast forwards
    and backwards together are preferred.
    """
    n, mid = q.shape[1:]
    fits = not q.is_cuda or mid <= _FUSED_HEAD
    if fits or (n > _EXPLICIT_LOCATIONS and not gradients):
        with sdpa_kernel(_WITH_GRADIENTS if gradients else _FASTEST, set_priority=True):
            return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
    # Matrix units want rows of the map that are multiples of 16 bytes.
    padding = 0 if gradients else -n % 8
    if padding:
        k, v = F.pad(k, (0, 0, 0, padding)), F.pad(v, (0, 0, 0, padding))
    z = torch.bmm(q, k.transpose(1, 2)).mul_(mid**-0.5)
    if padding:
        z[:, :, n:] = -torch.inf
    return torch.bmm(torch.softmax(z, dim=-1).to(v.dtype), v)  # autocast makes softmax float32


class FusedAttention(nn.Module):
    """A copy of a frozen block, with queries and keys in one convolution.

    The rows of an attention map sum to one, so the values' bias passes through it unchanged and
    joins the output's. If `clamped`, negative values of the result may become zero.
    """

    def __init__(self, block: SecondOrderAttention, *, clamped: bool) -> None:
        super().__init__()
        self.mid = block.mid
        self.query_key, key = folded(block.query, relu=True), folded(block.key)
        for name in ("weight", "bias"):
            both = torch.cat([getattr(self.query_key, name), getattr(key, name)])
            setattr(self.query_key, name, nn.Parameter(both))
        self.value = FusedConv(block.value)
        self.output = FusedConv(block.output, relu=clamped)
        move_bias(self.value, self.output, through=self.output.weight.flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to the same; `x` is overwritten."""
        b, c, h, w = x.shape
        q, k = locations(self.query_key(x)).tensor_split(2, dim=2)
        attended = attend(q, k, locations(self.value(x)))
        if self.output.relu:  # sum and ReLU happen inside the convolution
            out: Tensor = self.output(attended.view(b, h, w, self.mid).permute(0, 3, 1, 2), x)
            return out
        rows = locations(x).view(-1, c)  # the sum happens inside the matrix product, in place
        rows.addmm_(attended.reshape(-1, self.mid), self.output.weight.flatten(1).T)
        assert self.output.bias is not None
        rows.add_(self.output.bias)
        return x


def attend_folded(block: SecondOrderAttention, x: Tensor) -> Tensor:
    """Run a block that learns, but whose batch norms are frozen: (b, c, h, w), channels-last."""
    if x.shape[1] > block.channels:
        own, others = x.tensor_split([block.channels], dim=1)
        return torch.cat([attend_folded(block, own), others], dim=1)
    b, c, h, w = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(b, h * w, c)
    heads = (block.query, block.key)
    query, key = (F.linear(rows, *_folded_weights(head)).relu_() for head in heads)
    value = F.linear(rows, block.value.weight.flatten(1), block.value.bias)
    attended = attend(query, key, value, gradients=True)
    out = rows + F.linear(attended, block.output.weight.flatten(1), block.output.bias)
    return out.view(b, h, w, c).permute(0, 3, 1, 2)


def has_frozen_norms(block: SecondOrderAttention) -> bool:
    """Whether a block's batch norms are in evaluation mode."""
    return not any(m.training for m in block.modules() if isinstance(m, nn.BatchNorm2d))


def _folded_weights(head: Any) -> tuple[Tensor, Tensor]:
    """Weight (out, in) and bias of a 1×1 convolution and its frozen batch norm, with gradients."""
    conv, norm = head[0], head[1]
    factor = norm.weight * (norm.running_var + norm.eps).rsqrt()
    bias = (conv.bias - norm.running_mean) * factor + norm.bias
    return conv.weight.flatten(1) * factor[:, None], bias
