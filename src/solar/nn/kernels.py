"""Two GPU kernels for the stem of a ResNet: one gathers blocks of pixels, the other pools.

After the fused convolutions they make describing faster than anything else (docs/performance.md).
Imported only where there is a CUDA device, since Triton is only installed there.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


def to_blocks(pixels: Tensor, scale: float, mean: Tensor, std: Tensor) -> Tensor:
    """Resize, normalise and gather 2×2 pixels per location, in one pass over the photos.

    The same as `fused.to_blocks` on a normalised image that `torch.nn.functional.interpolate` has
    resized bilinearly, without a float32 map of the whole photo in between.

    Shape:
        (b, h, w, 3) bytes to (b, 16, ⌈s·h / 2⌉ + 3, ⌈s·w / 2⌉ + 3) in bfloat16, channels-last.
    """
    b, h, w, _ = pixels.shape
    height, width = int(h * scale), int(w * scale)
    rows, columns = (height + 1) // 2 + 3, (width + 1) // 2 + 3
    shape = (b, rows, columns, 16)
    blocks = torch.empty(shape, dtype=torch.bfloat16, device=pixels.device)
    factors = (1 / (255 * std)).flatten(), (-mean / std).flatten()
    block = 64
    grid = (triton.cdiv(columns, block), rows, b)  # a program per row of 64 locations
    _blocks_kernel[grid](
        pixels, blocks, *factors, h, w, height, width, 1 / scale, block, num_warps=4
    )
    return blocks.permute(0, 3, 1, 2)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _blocks_kernel(pixels, blocks, factors, shifts, h, w, height, width, step, block: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, columns = tl.num_programs(1), (width + 1) // 2 + 3
    column = tl.program_id(0) * block + tl.arange(0, block)[:, None]
    # 64 bits: a batch of large photos has more bytes than 32 can count.
    row, photo = tl.program_id(1), tl.program_id(2).to(tl.int64)
    # Colour by colour the four pixels of a block, as `pixel_unshuffle` orders them; a fourth colour
    # of zeros fills up to 16, as matrix units want it.
    channel = tl.arange(0, 16)[None, :]
    colour = channel // 4
    # Two blocks of zeros come first: three pixels of padding, and one for the row of zeros that
    # makes the kernel 8×8 (see `FusedStem`).
    y = 2 * (row - 2) + (channel % 4) // 2
    x = 2 * (column - 2) + channel % 2
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (colour < 3)
    # Where this output pixel's centre lies in the photo, as torch counts without aligned corners.
    sy = tl.maximum((y.to(tl.float32) + 0.5) * step - 0.5, 0.0)
    sx = tl.maximum((x.to(tl.float32) + 0.5) * step - 0.5, 0.0)
    y0 = tl.minimum(sy.to(tl.int32), h - 1)
    x0 = tl.minimum(sx.to(tl.int32), w - 1)
    y1 = tl.minimum(y0 + 1, h - 1)
    x1 = tl.minimum(x0 + 1, w - 1)
    fy, fx = sy - y0.to(tl.float32), sx - x0.to(tl.float32)
    start = pixels + photo * h * w * 3 + colour
    a = tl.load(start + (y0 * w + x0) * 3, mask=inside, other=0).to(tl.float32)
    b = tl.load(start + (y0 * w + x1) * 3, mask=inside, other=0).to(tl.float32)
    c = tl.load(start + (y1 * w + x0) * 3, mask=inside, other=0).to(tl.float32)
    d = tl.load(start + (y1 * w + x1) * 3, mask=inside, other=0).to(tl.float32)
    value = (1 - fy) * ((1 - fx) * a + fx * b) + fy * ((1 - fx) * c + fx * d)
    factor = tl.load(factors + colour, mask=colour < 3, other=0.0)
    shift = tl.load(shifts + colour, mask=colour < 3, other=0.0)
    value = tl.where(inside, value * factor + shift, 0.0)
    place = ((photo * rows + row) * columns + column) * 16 + channel
    tl.store(blocks + place, value.to(tl.bfloat16), mask=column < columns)


def max_pool(x: Tensor) -> Tensor:
    """3×3 maximum with stride 2 of a non-negative channels-last map, padded by one.

    The channels must be a power of two (64 in a ResNet). After a ReLU, zeros do for the padding.
    """
    b, c, h, w = x.shape
    height, width = (h + 1) // 2, (w + 1) // 2
    out = torch.empty((b, height, width, c), dtype=x.dtype, device=x.device)
    block = 16
    _pool_kernel[(triton.cdiv(width, block), height, b)](
        x, out, h, w, height, width, c, block, num_warps=4
    )
    return out.permute(0, 3, 1, 2)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _pool_kernel(x, out, h, w, height, width, channels: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    column = tl.program_id(0) * block + tl.arange(0, block)[:, None]
    row, photo = tl.program_id(1), tl.program_id(2).to(tl.int64)
    channel = tl.arange(0, channels)[None, :]
    start = x + photo * h * w * channels + channel
    best = tl.zeros((block, channels), x.dtype.element_ty)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            sy, sx = 2 * row - 1 + dy, 2 * column - 1 + dx
            inside = (sy >= 0) & (sy < h) & (sx >= 0) & (sx < w)
            best = tl.maximum(best, tl.load(start + (sy * w + sx) * channels, mask=inside, other=0))
    place = ((photo * height + row) * width + column) * channels + channel
    tl.store(out + place, best, mask=column < width)
