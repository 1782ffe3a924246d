"""Patches cut out of photos by the thousand, on a CPU or a GPU.

Photos of any sizes lie with their pyramids in one flat buffer of bytes; a patch reads only the few
pixels it needs from there. (Handing whole photos to `grid_sample`, once per patch, moves hundreds
of times as much memory as it uses.)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from solar.arrays import Pixels
from solar.errors import SolarError

REGION = 6.0
"""Side of a patch in sizes (diameters) of its keypoint: what a SIFT descriptor covers."""

SMALLEST = 20.0
"""Side of a patch at least, in pixels."""

LEVELS = 5
"""Halvings kept of every photo, itself included: enough to shrink sixteenfold without aliasing."""


@dataclass(frozen=True, eq=False)
class GreyPhotos:
    """Grey photos and their pyramids, laid end to end."""

    pixels: Tensor  # (bytes,) uint8
    starts: Tensor  # (photos, levels) int64, where each picture's first pixel lies
    widths: Tensor  # (photos, levels) int64
    heights: Tensor  # (photos, levels) int64

    @classmethod
    def lay(cls, photos: Iterable[Pixels]) -> "GreyPhotos":
        """Lay photos (h, w) of any sizes end to end, each followed by its halvings.

        A SolarError if there is no photo, or one is not a grey 8-bit picture.
        """
        parts: list[Pixels] = []
        shapes: list[list[tuple[int, int]]] = []
        for photo in photos:
            if photo.ndim != 2 or photo.dtype != np.uint8 or photo.size == 0:
                raise SolarError(
                    f"Patches are cut from grey photos (h, w) of uint8, not from {photo.shape} of "
                    f"{photo.dtype}."
                )
            pyramid = halvings(photo, LEVELS)
            parts += [level.ravel() for level in pyramid]
            shapes.append([(level.shape[0], level.shape[1]) for level in pyramid])
        if not shapes:
            raise SolarError("There is no photo to cut patches from.")
        sizes = np.array(shapes, np.int64)  # (photos, levels, 2)
        areas = sizes.prod(-1).ravel()
        starts = (np.cumsum(areas) - areas).reshape(sizes.shape[:2])
        tables = (starts, sizes[..., 1], sizes[..., 0])
        flat = torch.from_numpy(np.concatenate(parts))
        return cls(flat, *(torch.from_numpy(np.ascontiguousarray(t)) for t in tables))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def device(self) -> torch.device:
        """Where the pixels are."""
        return self.pixels.device

    def to(self, device: str | torch.device) -> "GreyPhotos":
        """The same photos on another device."""
        moved = (self.pixels, self.starts, self.widths, self.heights)
        return GreyPhotos(*(tensor.to(device) for tensor in moved))


def halvings(photo: Pixels, levels: int) -> list[Pixels]:
    """A photo, and means of its 2×2 blocks again and again, none smaller than a pixel.

    Pixel centre x of the photo lies at (x + ½) / 2^level − ½ of a level.
    """
    pyramid = [photo]
    for _ in range(levels - 1):
        last = pyramid[-1]
        if min(last.shape) < 2:  # cannot get smaller: repeat, with coordinates clamped later
            pyramid.append(last[:1, :1])
            continue
        even: NDArray[Any] = last[: last.shape[0] // 2 * 2, : last.shape[1] // 2 * 2]
        even = even.astype(np.uint16)
        total = even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2]
        pyramid.append(((total + 2) // 4).astype(np.uint8))
    return pyramid


def square_frames(
    points: NDArray[Any] | Tensor, sides: NDArray[Any] | Tensor, angles: NDArray[Any] | Tensor
) -> Tensor:
    """Frames (n, 2, 3) of square patches, as `cut` takes them.

    Centres (n, 2) and sides (n,) are in pixels, angles in radians. A positive angle turns the
    patch's x axis towards its y axis (clockwise on a screen), as OpenCV's keypoint angles do.
    """
    points, sides, angles = (torch.as_tensor(x).float() for x in (points, sides, angles))
    cosine, sine = (sides / 2 * f for f in (torch.cos(angles), torch.sin(angles)))
    turn = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)
    return torch.cat([turn, points[..., None]], -1)


def cut(
    photos: GreyPhotos | Pixels | Sequence[Pixels],
    frames: Tensor,
    numbers: Tensor | None = None,
    *,
    size: int = 32,
    coarser: Tensor | float = 0.0,
) -> Tensor:
    """Cut patches out of photos.

    A patch is read with bilinear interpolation from the two pyramid levels on either side of its
    own resolution, so that shrinking does not alias. Beyond a photo its border is repeated.

    Args:
        photos: Photos laid end to end, or grey arrays (one, or several) for once.
        frames: (n, 2, 3) affine or (n, 3, 3) projective, taking a patch's [−1, 1]² (x to the
            right, y down) to pixels of the photo, whose first pixel has its centre at (0, 0).
        numbers: (n,) which photo each patch is cut from; the first where not given.
        size: Side of the patches.
        coarser: (n,) or one for all: read this many pyramid levels further up, for patches as
            blurred as those of a photo 2^coarser times smaller.

    Returns:
        (n, 1, size, size) float32, 0 to 255, on the device of the photos.
    """
    if not isinstance(photos, GreyPhotos):
        photos = GreyPhotos.lay([photos] if isinstance(photos, np.ndarray) else photos)
    frames = frames.to(photos.device)
    if numbers is None:
        numbers = torch.zeros(len(frames), dtype=torch.int64, device=photos.device)
    x, y = _places(frames, size)
    last = photos.starts.shape[1] - 1
    level = (_step(frames, size).log2().clamp_min(0) + coarser).clamp(0, last)
    below = level.floor()
    above = (below + 1).clamp_max(last)
    fraction = (level - below)[:, None]
    patches = torch.lerp(
        _read(photos, numbers, below.long(), x, y), _read(photos, numbers, above.long(), x, y),
        fraction,
    )  # fmt: skip
    return patches.view(-1, 1, size, size)


def _places(frames: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Where in the photo each pixel of each patch lies: x and y, each (n, size · size)."""
    line = (torch.arange(size, device=frames.device) * 2 + 1) / size - 1
    v, u = (axis.reshape(-1) for axis in torch.meshgrid(line, line, indexing="ij"))
    rows = [frames[:, i, 0:1] * u + frames[:, i, 1:2] * v + frames[:, i, 2:3] for i in (0, 1)]
    if frames.shape[1] == 3:
        depth = frames[:, 2, 0:1] * u + frames[:, 2, 1:2] * v + frames[:, 2, 2:3]
        rows = [row / depth for row in rows]
    return rows[0], rows[1]


def _step(frames: Tensor, size: int) -> Tensor:
    """Photo pixels from one patch pixel to the next, in the middle of each patch."""
    a = frames[:, :2, :2]
    if frames.shape[1] == 3:  # the derivative of the projection at the patch's centre
        depth = frames[:, 2, 2, None, None]
        a = (a - frames[:, :2, 2:] / depth * frames[:, 2:, :2]) / depth
    area = a[:, 0, 0] * a[:, 1, 1] - a[:, 0, 1] * a[:, 1, 0]
    return area.abs().clamp_min(1e-12).sqrt() * 2 / size


def _read(photos: GreyPhotos, numbers: Tensor, level: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Bilinear values (n, m) of one pyramid level per patch at places (n, m) of the photo."""
    start = photos.starts[numbers, level][:, None]
    # Half as wide as they are kept: a photo's own pixels can be counted in 32 bits, and faster so.
    width, height = (
        table[numbers, level][:, None].int() for table in (photos.widths, photos.heights)
    )
    scale = torch.exp2(-level.float())[:, None]
    x = ((x + 0.5) * scale - 0.5).clamp_min(0).minimum(width - 1.0)
    y = ((y + 0.5) * scale - 0.5).clamp_min(0).minimum(height - 1.0)
    left, top = x.floor(), y.floor()
    right_part, lower_part = x - left, y - top
    column, row = left.int(), top.int()
    # One step on, unless that would leave the picture; its weight is zero there anyway.
    to_right = (column + 1 < width).int()
    to_lower = (row + 1 < height).int() * width
    upper_left = row * width + column
    lower_left = upper_left + to_lower

    def read(offset: Tensor) -> Tensor:
        places = (start + offset).view(-1)
        return photos.pixels.index_select(0, places).view_as(x).float()

    upper = torch.lerp(read(upper_left), read(upper_left + to_right), right_part)
    lower = torch.lerp(read(lower_left), read(lower_left + to_right), right_part)
    return torch.lerp(upper, lower, lower_part)
