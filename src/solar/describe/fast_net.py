"""The same network, faster: stages fused, bfloat16 on a GPU, launches recorded.

A batch norm that no longer learns is a scale and a shift, which the convolution absorbs (`solar.nn`
says how). Feature maps lie channels-last, as matrix units want them. On a GPU the backbone runs in
bfloat16; pooling, whitening and norms stay in float32. On a CPU everything does: some processors
that advertise bfloat16 matrix products die on them with an illegal instruction.

A photo takes 2.5 instead of 33.5 ms on an H200, at a cosine of 0.999997 (docs/performance.md).
"""

import copy
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.models import RetrievalNet


class FusedNet:
    """A frozen copy of a retrieval network for describing many photos.

    By default the backbone runs in bfloat16 if it can be fused, or takes it as it is, and the
    device is a GPU that has it, else in float32.
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
        # Fusing makes new tensors, so the copy of a backbone that is going to be fused shares those
        # of the original until then: a copy of them would be as large as the network.
        shared = net.backbone.fusable and self.device == net.device
        tensors = (*net.backbone.parameters(), *net.backbone.buffers()) if shared else ()
        self.net = copy.deepcopy(net, {id(tensor): tensor for tensor in tensors})
        self.net.to(self.device).eval()
        self.scales = net.config.scales if scales is None else tuple(scales)
        on_gpu = self.device.type == "cuda"
        plain = self.net.backbone
        able = plain.fusable or plain.takes_half
        half = on_gpu and able and torch.cuda.is_bf16_supported()
        self.dtype = dtype or (torch.bfloat16 if half else torch.float32)
        # The kernels for blocks are Triton's, and write bfloat16 alone.
        self._on_blocks = (
            half
            and plain.takes_blocks
            and self.dtype == torch.bfloat16
            and find_spec("triton") is not None
        )
        backbone: nn.Module = plain
        if plain.fusable:
            # An attention block that comes last may end in a ReLU, which its convolution has for
            # nothing, where the pooling does not see the negative values.
            backbone = plain.fuse(on_blocks=self._on_blocks, clamped=net.clamps)
            backbone.to(self.dtype)
        else:
            plain.cast(self.dtype)
        backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.net.add_module("backbone", backbone)
        self._graphs = _Graphs(self._describe) if on_gpu else None

    def __call__(self, pixels: Tensor) -> Tensor:
        """Photos of one size, (b, h, w, 3) bytes, to (b, dim) float32, unit norm, on the device.

        A SolarError if the device has no room for so many.
        """
        try:
            pixels = pixels.to(self.device, non_blocking=True)
            with torch.inference_mode():
                return self._describe(pixels) if self._graphs is None else self._graphs(pixels)
        except torch.OutOfMemoryError as error:
            count, height, width = pixels.shape[:3]
            raise SolarError(
                f"{self.device} has no room for a batch of {count} photos of {width}×{height} "
                "pixels: use a smaller batch, or a smaller size."
            ) from error

    def _describe(self, pixels: Tensor) -> Tensor:
        return self.net.average([self.net.forward_scale(images) for images in self.inputs(pixels)])

    def inputs(self, pixels: Tensor) -> Iterator[Tensor]:
        """What the backbone takes at each scale: images, or blocks of them on a GPU."""
        if not self._on_blocks:
            images = self.net.normalise(pixels)
            return (self.net.rescale(images, scale) for scale in self.scales)
        from solar.nn import kernels

        mean, std = self.net.mean, self.net.std
        return (kernels.to_blocks(pixels, scale, mean, std) for scale in self.scales)


class _Graphs:
    """Replays a function for shapes that come again, as one launch instead of a thousand.

    A shape runs plainly twice, since what a kernel does when it first runs (to be compiled, to
    choose an algorithm) cannot be recorded, is recorded the third time, and replayed from then on.
    All records share one pool of memory: they run one after the other, and results are copied out
    at once.
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
        # Other threads, which look photos up, may use the device meanwhile.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            outputs = self.run(inputs)
        return graph, inputs, outputs
