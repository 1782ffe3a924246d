"""Layers of `transformers`' backbones in fewer passes over memory, for copies that only describe.

On a GPU the matrix products of a vision transformer or a ConvNeXt take little longer than what lies
between them: biases, activations and scales that each read and write a whole map. What a matrix
product can do on its way out, it does here; what can be multiplied into weights, is.

Layers are recognised by the names of their parts. Those that have other parts stay as they are.
"""

from collections.abc import Sequence
from math import pi
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.nn.fused_attention import fused_heads

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


def fuse_layers(body: nn.Module) -> None:
    """Let a backbone of `transformers` compute the same in fewer passes, as far as it is known.

    Args:
        body: The backbone, or its stages; changed in place. It can only describe from then on.
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
            if _has(module, (linear, activation, last)) and not hasattr(module, "gate_proj"):
                _fuse_gelu(module, linear, activation)
        _fold_scales(module)


class FlatLinear(nn.Module):
    """A linear layer and perhaps the GELU after it, over all locations as the rows of one matrix.

    A GPU adds the bias, and computes the GELU, before the product leaves its registers. That GELU
    is the one by tanh, which differs from the exact one by less than bfloat16 can tell of a one;
    in other precisions and on a CPU it is the exact one.
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

    The library remembers the patches' places for the last 32 sizes. A recorded launch would go on
    reading them where they were after they have been forgotten.
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
    """A block of ConvNeXt, of its second version or of DINOv3's: what scales is in the weights."""

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


def _fuse_gelu(perceptron: nn.Module, linear: str, activation: str) -> None:
    if _is_gelu(getattr(perceptron, activation)):
        setattr(perceptron, linear, FlatLinear(getattr(perceptron, linear), gelu=True))
        setattr(perceptron, activation, nn.Identity())


def _fold_scales(layer: Any) -> None:
    """Multiply what scales both halves of a transformer's layer into the linear layers before."""
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
