"""The same network, faster: batch norms folded, kernels fused, bfloat16 on a GPU.

What a trained network computes does not change; how it is computed does:

- A batch norm that no longer learns is a scale and a shift, which the convolution absorbs.
- Feature maps lie channels-last, as matrix units want them.
- On a GPU the trunk runs in bfloat16, with bias, residual and ReLU inside the convolution's own
  kernel, so that no feature map crosses the memory for them alone. Pooling, whitening and norms
  stay in float32.
- On a CPU everything stays float32: some processors that advertise bfloat16 matrix products die on
  them with an illegal instruction.
"""

import copy
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.fusion import fuse_conv_bn_eval

from solar.models import RetrievalNet
from solar.models.retrieval_net import rescale
from solar.nn import GeM, ResNet, SecondOrderAttention
from solar.nn.resnet import BasicBlock, Bottleneck

# Fastest first; each is skipped where it cannot run.
_ATTENTION = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]
FUSED_HEAD = 256
"""Channels that a fused attention kernel of a GPU can take."""

_EXPLICIT_LOCATIONS = 4096  # beyond that, a map of all pairs takes too much memory


class FusedNet:
    """A frozen copy of a retrieval network for describing many photos.

    Args:
        net: The network; it is left as it is.
        device: Default: where `net` is.
        dtype: Of the trunk. Default: bfloat16 for a ResNet on a GPU that has it, else float32.
        scales: Default: the network's.
    """

    backend = "torch"

    def __init__(
        self,
        net: RetrievalNet,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        scales: Sequence[float] | None = None,
    ) -> None:
        self.device = torch.device(device or net.device)
        self.net = copy.deepcopy(net).to(self.device).eval()
        self.scales = net.config.scales if scales is None else tuple(scales)
        on_gpu = self.device.type == "cuda"
        trunk: nn.Module = self.net.backbone
        half = on_gpu and isinstance(trunk, ResNet) and torch.cuda.is_bf16_supported()
        self.dtype = dtype or (torch.bfloat16 if half else torch.float32)
        self._on_blocks = half and self.dtype == torch.bfloat16 and _has_triton()
        if isinstance(trunk, ResNet):
            positive = isinstance(net.pool, GeM) and net.local_whiten is None
            trunk = fuse(trunk, on_blocks=self._on_blocks, positive=positive)
        trunk.to(self.dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.net.add_module("backbone", trunk)
        self._graphs = _Graphs(self._describe) if on_gpu else None

    def __call__(self, pixels: Tensor) -> Tensor:
        """Photos of one size to descriptors.

        Shape:
            (b, h, w, 3) bytes to (b, dim) float32, unit norm, on the device.
        """
        pixels = pixels.to(self.device, non_blocking=True)
        with torch.inference_mode():
            return self._describe(pixels) if self._graphs is None else self._graphs(pixels)

    def _describe(self, pixels: Tensor) -> Tensor:
        return self.net.average([self.net(images) for images in self.inputs(pixels)])

    def inputs(self, pixels: Tensor) -> Iterator[Tensor]:
        """What the trunk takes at each scale: images, or blocks of them on a GPU."""
        if not self._on_blocks:
            images = self.net.normalise(pixels)
            return (rescale(images, scale) for scale in self.scales)
        from solar.describe import kernels

        mean, std = self.net.mean, self.net.std
        return (kernels.to_blocks(pixels, scale, mean, std) for scale in self.scales)


def fuse(trunk: ResNet, *, on_blocks: bool, positive: bool = False) -> nn.Sequential:
    """A ResNet as one row of fused parts, equal to it in evaluation mode.

    Args:
        trunk: Left as it is.
        on_blocks: Take 2×2 pixels a location (see `to_blocks`) instead of images.
        positive: What follows clamps negative values, so that the last attention block may.
    """
    parts: list[nn.Module] = [Stem(trunk.conv1, trunk.bn1, on_blocks=on_blocks)]
    for name, child in trunk.named_children():
        if isinstance(child, nn.Sequential):
            parts += [FusedBlock(block) for block in child]  # type: ignore[arg-type]
        elif isinstance(child, SecondOrderAttention):
            parts.append(FusedAttention(child, clamped=positive and name == "soa5"))
    return nn.Sequential(*parts)


def _has_triton() -> bool:
    return find_spec("triton") is not None


class FusedConv(nn.Module):
    """A convolution with its batch norm folded in, and perhaps residual and ReLU in its kernel."""

    weight: Tensor
    bias: Tensor | None
    padding: tuple[int, ...]

    def __init__(
        self, conv: nn.Conv2d, norm: nn.BatchNorm2d | None = None, *, relu: bool = False
    ) -> None:
        super().__init__()
        folded = copy.deepcopy(conv) if norm is None else fuse_conv_bn_eval(conv, norm)
        self.weight = folded.weight
        self.bias = (
            nn.Parameter(torch.zeros(conv.out_channels)) if folded.bias is None else folded.bias
        )
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


class Stem(nn.Module):
    """The first convolution and the maximum pooling.

    Three channels feed a matrix unit badly. With every 2×2 pixels as one location of 16 channels
    (four of them zero), the 7×7 convolution of stride 2 is a 4×4 one of stride 1.
    """

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d, *, on_blocks: bool) -> None:
        super().__init__()
        self.on_blocks = on_blocks
        self.conv = FusedConv(conv, norm, relu=True)
        if on_blocks:
            weight = F.pixel_unshuffle(F.pad(self.conv.weight, (1, 0, 1, 0)), 2)
            self.conv.weight = nn.Parameter(F.pad(weight, (0, 0, 0, 0, 0, 4)))
            self.conv.stride, self.conv.padding = (1, 1), (0, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, 3, h, w), or blocks of it, to (b, 64, about h / 4, about w / 4)."""
        x = self.conv(x.to(self.conv.weight.dtype, memory_format=torch.channels_last))
        if x.is_cuda and self.on_blocks:
            from solar.describe import kernels

            return kernels.max_pool(x)
        return F.max_pool2d(x, 3, stride=2, padding=1)


def to_blocks(images: Tensor) -> Tensor:
    """(b, 3, h, w) to (b, 16, ⌈h / 2⌉ + 3, ⌈w / 2⌉ + 3): 2×2 pixels a location, zeros around."""
    h, w = images.shape[2:]
    images = F.pad(images, (4, 2 + w % 2, 4, 2 + h % 2))
    return F.pad(F.pixel_unshuffle(images, 2), (0, 0, 0, 0, 0, 4))


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
            # The sum may as well take the shortcut's bias from the last convolution's.
            self.last.bias = nn.Parameter(_bias(self.last) + _bias(self.shortcut))
            self.shortcut.bias = None

    def forward(self, x: Tensor) -> Tensor:
        """Shape: as the block's."""
        residual = x if self.shortcut is None else self.shortcut(x)
        out: Tensor = self.last(self.first(x), residual)
        return out


class FusedAttention(nn.Module):
    """Second-order attention with queries and keys in one convolution.

    The rows of an attention map sum to one, so the values' bias passes through it unchanged and
    joins the output's.
    """

    def __init__(self, block: SecondOrderAttention, *, clamped: bool) -> None:
        super().__init__()
        self.mid = block.mid
        heads = [folded(head) for head in (block.query, block.key)]
        self.query_key = folded(block.query, relu=True)
        self.query_key.weight = nn.Parameter(torch.cat([head.weight for head in heads]))
        self.query_key.bias = nn.Parameter(torch.cat([_bias(head) for head in heads]))
        self.value = FusedConv(block.value)
        self.output = FusedConv(block.output, relu=clamped)
        through = self.output.weight.flatten(1) @ _bias(self.value)
        self.output.bias = nn.Parameter(_bias(self.output) + through)
        self.value.bias = None

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to the same; `x` is overwritten."""
        b, c, h, w = x.shape
        q, k = _locations(self.query_key(x)).tensor_split(2, dim=2)
        attended = attend(q, k, _locations(self.value(x)))
        if self.output.relu:
            out: Tensor = self.output(attended.view(b, h, w, self.mid).permute(0, 3, 1, 2), x)
            return out
        rows = _locations(x).view(-1, c)  # the sum happens inside the matrix product, in place
        rows.addmm_(attended.reshape(-1, self.mid), self.output.weight.flatten(1).T)
        rows.add_(_bias(self.output))
        return x


def folded(head: nn.Sequential, *, relu: bool = False) -> FusedConv:
    """The convolution and the batch norm that a row of layers starts with."""
    conv, norm = head[0], head[1]
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(norm, nn.BatchNorm2d)
    return FusedConv(conv, norm, relu=relu)


def _bias(conv: FusedConv) -> Tensor:
    assert conv.bias is not None
    return conv.bias


def _locations(x: Tensor) -> Tensor:
    """A channels-last (b, c, h, w) as (b, h·w, c), without a copy."""
    return x.permute(0, 2, 3, 1).flatten(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q·kᵀ / √m)·v for (b, n, m) each, by whatever is fastest on the device."""
    n, mid = q.shape[1:]
    if not q.is_cuda or mid <= FUSED_HEAD or n > _EXPLICIT_LOCATIONS:
        with sdpa_kernel(_ATTENTION, set_priority=True):
            return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
    # No fused kernel takes heads this wide. Matrix units want rows that are multiples of 16 bytes.
    padding = -n % 8
    if padding:
        k, v = F.pad(k, (0, 0, 0, padding)), F.pad(v, (0, 0, 0, padding))
    z = torch.bmm(q, k.transpose(1, 2)).mul_(mid**-0.5)
    z[:, :, n:] = -torch.inf
    return torch.bmm(torch.softmax(z, dim=-1), v)


class _Graphs:
    """Replays a function for shapes that come again, as one launch instead of hundreds.

    A shape runs plainly twice, is recorded the third time, and replayed from then on. All records
    share one pool of memory: they run one after the other, and results are copied out at once.
    """

    def __init__(self, run: Callable[[Tensor], Tensor], most: int = 16) -> None:
        self.run, self.most = run, most
        self.seen: Counter[torch.Size] = Counter()
        self.recorded: OrderedDict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = (
            OrderedDict()
        )
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, x: Tensor) -> Tensor:
        self.seen[x.shape] += 1
        if self.seen[x.shape] < 3:
            return self.run(x)
        if x.shape not in self.recorded:
            if len(self.recorded) == self.most:
                self.recorded.popitem(last=False)
            self.recorded[x.shape] = self._record(x)
        self.recorded.move_to_end(x.shape)
        graph, inputs, outputs = self.recorded[x.shape]
        inputs.copy_(x)
        graph.replay()
        return outputs.clone()

    def _record(self, x: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        inputs = x.clone()
        graph = torch.cuda.CUDAGraph()
        # Others of this process, which look photos up, may go on using the device meanwhile.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            outputs = self.run(inputs)
        return graph, inputs, outputs
