"""Images of sides that a backbone can cut into patches."""

from math import floor
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Interpolation = Literal["nearest", "bilinear", "bicubic"]


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
    h, w = images.shape[2:]
    size = [_multiple(side, scale, grid) for side in (h, w)]
    # An exported program must not depend on whether the sides of the example fit.
    if not torch.compiler.is_exporting() and size == [h, w]:
        return images
    return F.interpolate(images, size=size, mode=mode, align_corners=align)


def _multiple(side: int, scale: float, grid: int) -> int:
    if scale == 1:  # in whole numbers, which an exported program can be saved with
        return (2 * side + grid) // (2 * grid) * grid
    return floor(side * scale / grid + 0.5) * grid


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
