"""A network in training: no activations or gradients for frozen parts.

The backbone up to the first part that learns runs without gradients, a few photos at a time; the
rest propagates gradients. With folded batch norms and bfloat16, the first part is the same fused
backbone that describes photos.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from solar.models import RetrievalNet
from solar.nn import SecondOrderAttention
from solar.nn.fused import attend_folded, has_frozen_norms, to_blocks
from solar.training.augment import Augmentation, augment
from solar.training.retrieval.parameter_groups import learns
from solar.training.retrieval.recipe import RetrievalCompute

Part = Callable[[Tensor], Tensor]


class TrainableNet(nn.Module):
    """A network as the training loop calls it: bytes in, unit descriptors out.

    Make it once the network is on its device, in training mode, and its learning parts are chosen.
    """

    def __init__(
        self,
        net: RetrievalNet,
        settings: RetrievalCompute,
        augmentation: Augmentation | None = None,
    ) -> None:
        super().__init__()
        self.net, self.settings, self.augmentation = net, settings, augmentation
        on_gpu = net.device.type == "cuda"
        half = settings.half(net.device)
        self.dtype = torch.bfloat16 if half else torch.float32
        self.fused = settings.fused == "yes" or (settings.fused == "auto" and half)
        self.channels_last = on_gpu or self.fused
        if self.channels_last:
            net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        parts = net.backbone.stages()
        first = next((n for n, (_, part) in enumerate(parts) if learns(part)), len(parts))
        able = on_gpu and half and net.backbone.takes_blocks  # kernels for blocks need Triton
        self.on_blocks = self.fused and first > 0 and able
        # Lists hide these parts from torch: they belong to the network or are frozen copies.
        self._front = [self._frozen(name, part) for name, part in parts[:first]]
        self._back = [self._learning(name, part) for name, part in parts[first:]]

    def forward(self, groups: Sequence[Tensor], generator: torch.Generator | None = None) -> Tensor:
        """Describe groups of photos, (n, h, w, 3) bytes; with a generator they are augmented."""
        return torch.cat([self._describe(group, generator) for group in groups])

    def _describe(self, pixels: Tensor, generator: torch.Generator | None) -> Tensor:
        pixels = pixels.to(self.net.device, non_blocking=True)
        parts = torch.split(pixels, self.settings.frozen_batch) if self._front else (pixels,)
        x = torch.cat([self._through_front(part, generator) for part in parts])
        with self._autocast():
            for part in self._back:
                keep = not self.settings.checkpoint or not torch.is_grad_enabled()
                x = part(x) if keep else checkpoint(part, x, use_reentrant=False)  # type: ignore[no-untyped-call, unused-ignore]
        return self.net.head(x)

    @torch.no_grad()
    def _through_front(self, pixels: Tensor, generator: torch.Generator | None) -> Tensor:
        x = self._images(pixels, generator)
        fused = self.fused and self.net.backbone.fusable
        if fused:
            x = x.to(self.dtype)
        with self._autocast(enabled=not fused):
            for part in self._front:
                x = part(x)
        return x

    def _images(self, pixels: Tensor, generator: torch.Generator | None) -> Tensor:
        net = self.net
        if generator is not None and self.augmentation is not None:
            changed = augment(pixels.movedim(-1, 1), self.augmentation, generator)
            images = (changed - net.mean) / net.std
        elif self.on_blocks:
            from solar.nn import kernels

            return kernels.to_blocks(pixels, 1.0, net.mean, net.std)
        else:
            images = net.normalise(pixels)
        if self.on_blocks:
            images = to_blocks(images)
        if self.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        return images

    def _autocast(self, enabled: bool = True) -> torch.autocast:
        half = self.dtype == torch.bfloat16
        return torch.autocast(self.net.device.type, torch.bfloat16, enabled=enabled and half)

    def _frozen(self, name: str, part: nn.Module) -> Part:
        if not self.fused or not self.net.backbone.fusable:
            return part
        fused = self.net.backbone.fuse_stage(name, part, on_blocks=self.on_blocks)
        fused = fused.requires_grad_(False).to(self.net.device, self.dtype)
        return fused.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def _learning(self, name: str, part: nn.Module) -> Part:
        if isinstance(part, SecondOrderAttention):
            if self.fused and has_frozen_norms(part):
                return lambda x: attend_folded(part, x)
            return part
        return part if learns(part) else self._frozen(name, part)
