"""Frozen networks in fewer, larger steps, to describe photos faster.

A GPU waits for its memory more than for its arithmetic. So batch norms are folded into
convolutions, and biases, residual sums and activations happen inside the kernels that make a map:
it crosses the memory once per layer instead of two or three times. Of all that makes describing
fast, this gains most (docs/performance.md). Locations stay rows of channels-last memory, so that
nothing is copied.

In turn: convolutions of ResNets; second-order attention (`solar.nn.soa` is the plain way, which
also gives maps and can be exported); layers of backbones of `transformers`.
"""

import copy
from collections.abc import Sequence
from math import pi
from operator import attrgetter
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
# Linear layer, activation, linear layer.
_PERCEPTRONS = (("fc1", "activation_fn", "fc2"), ("up_proj", "act_fn", "down_proj"))
# The same in a ConvNeXt, after a convolution and a norm; then a scale or a response norm.
_CONVNEXT = ("dwconv", "layernorm", "pwconv1", "act", "pwconv2")
_DINOV3 = ("depthwise_conv", "layer_norm", "pointwise_conv1", "activation_fn", "pointwise_conv2")
_BLOCKS = ((*_CONVNEXT, "layer_scale_parameter"), (*_CONVNEXT, "grn"), (*_DINOV3, "gamma"))
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
# What a layer scales, and the linear layer that it comes from.
_SCALED = {
    "layer_scale1": ("attention.o_proj",),
    "layer_scale2": ("mlp.fc2", "mlp.down_proj"),
}
_PLAIN_ATTENTION = ("Dinov2Attention", "Dinov2WithRegistersAttention")  # positions play no part


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
        return fused_heads(q[:, None], k[:, None], v[:, None], gradients=gradients)[:, 0]
    # Matrix units want rows of the map that are multiples of 16 bytes.
    padding = 0 if gradients else -n % 8
    if padding:
        k, v = F.pad(k, (0, 0, 0, padding)), F.pad(v, (0, 0, 0, padding))
    z = torch.bmm(q, k.transpose(1, 2)).mul_(mid**-0.5)
    if padding:
        z[:, :, n:] = -torch.inf
    return torch.bmm(torch.softmax(z, dim=-1).to(v.dtype), v)  # autocast makes softmax float32


def fused_heads(q: Tensor, k: Tensor, v: Tensor, *, gradients: bool = False) -> Tensor:
    """`attend` for several heads, (b, heads, n, m) each, always by torch's kernels."""
    with sdpa_kernel(_WITH_GRADIENTS if gradients else _FASTEST, set_priority=True):
        return F.scaled_dot_product_attention(q, k, v)


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


# Layers of backbones of `transformers`, recognised by the names of their parts


def fuse_layers(body: nn.Module) -> None:
    """Fuse the known layers of a backbone of `transformers` (or of its stages), in place.

    Layers with other parts stay as they are. Afterwards it can only describe, not learn.
    """
    for module in list(body.modules()):
        for name, child in list(module.named_children()):
            for names in _BLOCKS:
                if _has(child, names) and _is_gelu(getattr(child, names[3])):
                    setattr(module, name, FusedConvNeXt(child, names))
            if type(child) is nn.Conv2d and _is_stem(child):
                setattr(module, name, PatchConv(child))
            if type(child).__name__ in _PLAIN_ATTENTION and _has(child, _PROJECTIONS):
                setattr(module, name, JointAttention(child))
            if type(child).__name__ == "DINOv3ViTRopePositionEmbedding":
                setattr(module, name, PatchAngles(child))
        for linear, activation, last in _PERCEPTRONS:
            known = _has(module, (linear, activation, last)) and not hasattr(module, "gate_proj")
            if known and _is_gelu(getattr(module, activation)):
                setattr(module, linear, FlatLinear(getattr(module, linear), gelu=True))
                setattr(module, activation, nn.Identity())
        _fold_scales(module)


class FlatLinear(nn.Module):
    """A linear layer and perhaps the GELU after it, over all locations as the rows of one matrix.

    In bfloat16 on a GPU, bias and GELU are computed before the product leaves the registers. That
    GELU, by tanh, differs from the exact one by less than the precision of bfloat16.
    """

    def __init__(self, linear: nn.Linear, *, gelu: bool = False) -> None:
        super().__init__()
        bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias
        self.weight, self.bias = nn.Parameter(linear.weight.data), nn.Parameter(bias.data)
        self.gelu = gelu

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (…, in) to (…, out)."""
        rows = x.reshape(-1, x.shape[-1])
        if self.gelu and x.is_cuda and x.dtype == torch.bfloat16:
            out = torch._addmm_activation(self.bias, rows, self.weight.T, use_gelu=True)
        else:
            out = F.linear(rows, self.weight, self.bias)
            out = F.gelu(out) if self.gelu else out
        return out.view(*x.shape[:-1], -1)


class PatchConv(nn.Conv2d):
    """A convolution of a few channels whose windows do not overlap, as one matrix product.

    Ready-made kernels for convolutions use the matrix units of a GPU well from eight channels on.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        sizes: Any = conv.kernel_size
        super().__init__(conv.in_channels, conv.out_channels, sizes, sizes, bias=False)
        self.weight, self.bias = conv.weight, conv.bias

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to (b, out, h', w'), channels-last; what is left over is cut off."""
        (b, c, h, w), (height, width) = x.shape, self.kernel_size
        rows, columns = h // height, w // width
        x = x[:, :, : rows * height, : columns * width].permute(0, 2, 3, 1)
        patches = x.reshape(b, rows, height, columns, width, c).transpose(2, 3)
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)
        out = F.linear(patches.reshape(-1, weight.shape[1]), weight, self.bias)
        return out.view(b, rows, columns, -1).permute(0, 3, 1, 2)


class JointAttention(nn.Module):
    """Attention of a vision transformer, with queries, keys and values in one matrix product."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.width = attention.head_dim
        *projections, self.o_proj = (FlatLinear(getattr(attention, n)) for n in _PROJECTIONS)
        self.joint = projections[0]
        for name in ("weight", "bias"):
            joint = torch.cat([getattr(projection, name).data for projection in projections])
            setattr(self.joint, name, nn.Parameter(joint))

    def forward(self, hidden_states: Tensor, **unused: Any) -> tuple[Tensor, None]:
        """Shape: (b, n, c) to the same, and no map; called as the library calls its own."""
        b, n, _ = hidden_states.shape
        q, k, v = self.joint(hidden_states).view(b, n, 3, -1, self.width).permute(2, 0, 3, 1, 4)
        return self.o_proj(fused_heads(q, k, v).transpose(1, 2).reshape(b, n, -1)), None


class PatchAngles(nn.Module):
    """The angles by which DINOv3 turns queries and keys, computed anew for every batch.

    The library caches the patches' places for the last 32 sizes: a recorded CUDA graph would go on
    reading them after they were freed.
    """

    inv_freq: Tensor

    def __init__(self, angles: Any) -> None:
        super().__init__()
        size = angles.config.patch_size
        self.patch = (size, size) if isinstance(size, int) else tuple(size)
        self.register_buffer("inv_freq", angles.inv_freq, persistent=False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Shape: (b, 3, h, w) to cosines and sines, (patches, channels of a head) each."""
        counts = [side // patch for side, patch in zip(images.shape[2:], self.patch, strict=True)]
        middles = [torch.arange(0.5, n, device=images.device) / n * 2 - 1 for n in counts]
        places = torch.stack(torch.meshgrid(middles, indexing="ij"), dim=-1).flatten(0, 1)
        angles = (2 * pi * places[:, :, None] * self.inv_freq).flatten(1).tile(2)
        return angles.cos().to(images.dtype), angles.sin().to(images.dtype)


class FusedConvNeXt(nn.Module):
    """A block of ConvNeXt, ConvNeXt V2 or DINOv3, with its scales multiplied into the weights."""

    def __init__(self, block: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.convolution, self.norm, first, _, second, last = (getattr(block, n) for n in names)
        self.first, self.second = FlatLinear(first, gelu=True), FlatLinear(second)
        self.response: Tensor | None = None
        if isinstance(last, Tensor):
            _scale(self.second, last)
        elif last is not None:
            # What is added to every location in front of a linear layer is part of its bias.
            self.response = nn.Parameter(last.weight.data)
            bias = self.second.bias.data + self.second.weight.data @ last.bias.data.flatten()
            self.second.bias = nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to the same."""
        rows = self.first(self.norm(self.convolution(x).permute(0, 2, 3, 1)))
        if self.response is not None:
            energy = torch.linalg.vector_norm(rows, dim=(1, 2), keepdim=True)
            rows.mul_(1 + self.response * (energy / (energy.mean(-1, keepdim=True) + 1e-6)))
        out: Tensor = self.second(rows)
        return x + out.permute(0, 3, 1, 2)


def _fold_scales(layer: Any) -> None:
    """Multiply the scales of a transformer's layer into the linear layers before them."""
    for scale, linears in _SCALED.items():
        linear = next((name for name in linears if _has(layer, (f"{scale}.lambda1", name))), None)
        if linear is not None:
            _scale(layer.get_submodule(linear), getattr(layer, scale).lambda1)
            setattr(layer, scale, nn.Identity())


def _scale(linear: Any, factors: Tensor) -> None:
    linear.weight = nn.Parameter(linear.weight.data * factors.data[:, None])
    if linear.bias is not None:
        linear.bias = nn.Parameter(linear.bias.data * factors.data)


def _is_stem(conv: nn.Conv2d) -> bool:
    plain = conv.groups == 1 and conv.dilation == (1, 1) and conv.padding == (0, 0)
    apart = conv.kernel_size == conv.stride != (1, 1)
    return plain and apart and conv.in_channels < 8


def _is_gelu(activation: nn.Module) -> bool:
    x = torch.linspace(-4, 4, 33)
    return torch.equal(activation(x), F.gelu(x))


def _has(module: nn.Module, names: Sequence[str]) -> bool:
    try:
        attrgetter(*names)(module)
    except AttributeError:
        return False
    return True
