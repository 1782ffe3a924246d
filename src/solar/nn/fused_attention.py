"""Second-order attention on the fastest kernels that the device and the shape allow.

Locations stay rows of channels-last memory all the way, so that nothing is copied, and batch norms
that no longer learn are folded into the projections: once and for all in `FusedAttention`, anew in
each step in `attend_folded`, where the projections learn. `solar.nn.soa` is the plain way, which
also gives maps and can be exported.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from solar.nn.fused import FusedConv, folded, move_bias
from solar.nn.soa import SecondOrderAttention

# Fastest first; torch skips those that cannot run.
_CUDNN, _FLASH = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
_OTHERS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_FASTEST = [_CUDNN, _FLASH, *_OTHERS]
# Flash is the only one with a backward pass for heads of 256 channels.
_WITH_GRADIENTS = [_FLASH, _CUDNN, *_OTHERS]
_FUSED_HEAD = 256  # channels that a fused kernel of a GPU can take
_EXPLICIT_LOCATIONS = 4096  # beyond that, a map of all pairs takes too much memory


def attend(q: Tensor, k: Tensor, v: Tensor, *, gradients: bool = False) -> Tensor:
    """softmax(q·kᵀ / √m)·v, (b, n, m) each, by whatever is fastest on the device.

    A fused kernel holds no map of all pairs: linear memory, and for conv4's 256 channels the
    fastest way. None takes heads as wide as conv5's 1,024; torch's own way for those computes in
    float32, so the map is written out, in the precision of the input. With `gradients`, kernels
    that are fast forwards and backwards together are preferred.
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
    """A copy of a block that is frozen, with queries and keys in one convolution.

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
        q, k = _locations(self.query_key(x)).tensor_split(2, dim=2)
        attended = attend(q, k, _locations(self.value(x)))
        if self.output.relu:  # sum and ReLU happen inside the convolution
            out: Tensor = self.output(attended.view(b, h, w, self.mid).permute(0, 3, 1, 2), x)
            return out
        rows = _locations(x).view(-1, c)  # the sum happens inside the matrix product, in place
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


def _folded_weights(head: nn.Sequential) -> tuple[Tensor, Tensor]:
    """Weight (out, in) and bias of a 1×1 convolution and its frozen batch norm, with gradients."""
    conv, norm = head[0], head[1]
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(norm, nn.BatchNorm2d)
    assert conv.bias is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    factor = norm.weight * (norm.running_var + norm.eps).rsqrt()
    bias = (conv.bias - norm.running_mean) * factor + norm.bias
    return conv.weight.flatten(1) * factor[:, None], bias


def _locations(x: Tensor) -> Tensor:
    """A channels-last (b, c, h, w) as (b, h·w, c), without a copy."""
    return x.permute(0, 2, 3, 1).flatten(1, 2)
