"""The base class of backbones: stages, places for attention, fusing, sides of images."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import floor
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.errors import SolarError
from solar.nn.fused import FusedAttention
from solar.nn.soa import Init, SecondOrderAttention

Interpolation = Literal["nearest", "bilinear", "bicubic"]
RunAttention = Callable[[int, SecondOrderAttention, Tensor], Tensor]
"""How a backbone runs one of its attention blocks: (layer number, block, map) to map."""

draws_weights = ContextVar("draws_weights", default=True)
"""See `without_drawing`."""


@contextmanager
def without_drawing() -> Iterator[None]:
    """Build backbones without drawing weights, which takes seconds: they are read from a file."""
    token = draws_weights.set(False)
    try:
        yield
    finally:
        draws_weights.reset(token)


class Backbone(nn.Module):
    """Images to a feature map, stage by stage, with second-order attention between stages.

    A subclass calls `add_stage` and `add_attention` in the order in which they run.
    `solar.nn.backbones` lists the backbones by name.

    Args:
        attention: Layer number to channel reduction; the blocks are called `soa` and the number.
        places: The `attention_strides` of a backbone whose class does not know them.
    """

    channels: int  # of the feature map
    # Layer number to pixels per location. Layers are numbered as in the paper (3, 4, 5 for strides
    # 8, 16, 32), so that a recipe's "45" means the same in every backbone.
    attention_strides: Mapping[int, int] = {}
    fusable: ClassVar[bool] = False  # `fuse_stage` knows every stage
    takes_blocks: ClassVar[bool] = False  # the fused stem can take 2×2 pixels per location
    takes_half: ClassVar[bool] = False  # it can run in bfloat16 on a GPU although not fusable
    grid: int = 1  # sides of images are rounded to multiples of this
    least_side: int = 1  # fewest pixels of an image's shorter side, for the map not to be empty
    stride: int = 32  # pixels from one location of the map to the next
    # Pixels from the edge to the middle of the first location's field: every convolution with a
    # stride pads half its window.
    first: float = 0.5
    title: str = ""  # in errors; the class if empty

    def __init__(
        self,
        attention: Mapping[int, int] | None = None,
        places: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__()
        if places is not None:
            self.attention_strides = places
        self._reductions = dict(attention or {})
        self._stages: dict[str, tuple[str, ...]] = {}  # names, so that copies have their own
        misplaced = sorted(set(self._reductions) - set(self.attention_strides))
        if misplaced:
            name = self.title or type(self).__name__
            if not self.attention_strides:
                raise SolarError(f"{name} has no place for attention: use a ResNet.")
            known, wrong = (", ".join(map(str, n)) for n in (self.attention_strides, misplaced))
            raise SolarError(f"Attention goes after layers {known} of a {name}, not {wrong}.")

    def add_stage(self, name: str, part: nn.Module | Sequence[str]) -> None:
        """Append a stage: a module, or the names of children that were added already."""
        if isinstance(part, nn.Module):
            self.add_module(name, part)
            part = (name,)
        self._stages[name] = tuple(part)

    def add_attention(self, layer: int, channels: int, *, init: Init = "kaiming") -> None:
        """Insert attention after the stages so far, if this layer was asked for."""
        if layer in self._reductions:
            block = SecondOrderAttention(channels, self._reductions[layer], init=init)
            self.add_stage(f"soa{layer}", block)

    def stages(self) -> list[tuple[str, nn.Module]]:
        """Names and modules in order, attention blocks too."""
        found = []
        for name, children in self._stages.items():
            parts = [self.get_submodule(child) for child in children]
            found.append((name, parts[0] if len(parts) == 1 else nn.Sequential(*parts)))
        return found

    def layers(self) -> dict[str, list[nn.Parameter]]:
        """Parts that may have learning rates of their own, in order; by default the stages."""
        return {name: list(part.parameters()) for name, part in self.stages()}

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, 3, h, w) to (b, channels, h', w')."""
        return self.run(x, lambda layer, block, x: block(x))

    def run(self, x: Tensor, attend: RunAttention) -> Tensor:
        """Like `forward`, with `attend` in place of every attention block."""
        for name, children in self._stages.items():
            for child in children:
                part = self.get_submodule(child)
                if isinstance(part, SecondOrderAttention):
                    x = attend(int(name.removeprefix("soa")), part, x)
                else:
                    x = part(x)
        return x

    def cast(self, dtype: torch.dtype) -> None:
        """Compute in another precision from now on, maps included."""
        self.to(dtype)

    def fuse_stage(
        self, name: str, part: nn.Module, *, on_blocks: bool = False, clamped: bool = False
    ) -> nn.Module:
        """A copy of a stage that computes the same in evaluation mode, in fewer, larger steps.

        Backbones that are `fusable` override it for their own stages.

        With `on_blocks` the stem takes `to_blocks` of images instead of images; `clamped` tells
        that the next layer clamps negative values, so an attention block may, too.
        """
        if isinstance(part, SecondOrderAttention):
            return FusedAttention(part, clamped=clamped)
        raise NotImplementedError(f"{type(self).__name__} does not say how {name} is fused")

    def fuse(self, *, on_blocks: bool = False, clamped: bool = False) -> nn.Sequential:
        """All stages fused, in a row; `clamped` goes for the last one."""
        fused = nn.Sequential()
        for name, part in self.stages():
            last = name == next(reversed(self._stages))
            fused.append(self.fuse_stage(name, part, on_blocks=on_blocks, clamped=clamped and last))
        return fused


def resize(
    images: Tensor, scale: float = 1.0, grid: int = 1, mode: Interpolation = "bilinear"
) -> Tensor:
    """Resize images (b, c, h, w), without antialiasing, so that each side is a multiple of `grid`.

    A side becomes the multiple nearest to `scale` times its length, halves rounded up. The aspect
    ratio changes by half a patch at most. With a grid of 1, scaled sides are rounded down.
    """
    align = None if mode == "nearest" else False
    if grid == 1:
        if scale == 1:
            return images
        return F.interpolate(images, scale_factor=scale, mode=mode, align_corners=align)
    sides = images.shape[2:]
    if scale == 1:  # in whole numbers, which an exported program can be saved with
        size = [(2 * side + grid) // (2 * grid) * grid for side in sides]
    else:
        size = [floor(side * scale / grid + 0.5) * grid for side in sides]
    # An exported program must not depend on whether the sides of the example fit.
    if not torch.compiler.is_exporting() and size == [*sides]:
        return images
    return F.interpolate(images, size=size, mode=mode, align_corners=align)


class ToGrid(nn.Module):
    """`resize` as the first stage of a backbone; `dtype`, if set, is that of its output."""

    dtype: torch.dtype | None = None

    def __init__(self, grid: int, mode: Interpolation = "bilinear") -> None:
        super().__init__()
        self.grid, self.mode = grid, mode

    def forward(self, images: Tensor) -> Tensor:
        """Shape: (b, c, h, w) to the same with rounded h and w."""
        images = resize(images, 1.0, self.grid, self.mode)
        return images if self.dtype is None else images.to(self.dtype)
