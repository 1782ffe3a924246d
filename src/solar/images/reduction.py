"""What `solar.images.load` does with a photo after it is decoded, for pixels on a device."""

from dataclasses import dataclass, field

from torch import Tensor

from solar.images.boxes import Box, pixel_box
from solar.images.jpeg_header import plain_header
from solar.images.lanczos import shrink
from solar.images.opening import opened
from solar.images.orientation import orientation_of
from solar.images.resize import query_size, thumbnail_size

# The orientations in which photos are mirrored along an axis, after 5 to 8 were transposed.
_MIRRORED = {3: (2, 3, 6, 7), 2: (3, 4, 7, 8)}


@dataclass(frozen=True)
class Reduction:
    """The way from the stored pixels of a photo to those that are described.

    Attributes:
        stored: Width and height of what the file holds.
        orientation: EXIF's, 1 to 8.
        box: What is cut out of the upright photo: left, top, right, bottom.
        target: Width and height that are left.
        end: Bytes of the file up to the end of the photo.
    """

    stored: tuple[int, int]
    orientation: int
    box: tuple[int, int, int, int]
    target: tuple[int, int]
    end: int = field(compare=False)

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height of the whole photo, upright."""
        return self.stored if self.orientation < 5 else self.stored[::-1]

    @property
    def nbytes(self) -> int:
        """Memory of the decoded photo."""
        return 3 * self.stored[0] * self.stored[1]

    def apply(self, photos: Tensor) -> Tensor:
        """Turn, cut and shrink photos that are treated alike.

        Shape: (b, 3, h, w) bytes as stored to (b, h, w, 3) bytes.
        """
        photos = _turned(photos, self.orientation)
        x1, y1, x2, y2 = self.box
        photos = photos[..., y1:y2, x1:x2]
        if self.target != (x2 - x1, y2 - y1):
            photos = shrink(photos, *self.target)
        return photos.permute(0, 2, 3, 1).contiguous()


def plan_reduction(
    data: bytes, size: int, *, box: Box | None, orient: bool, max_pixels: int
) -> Reduction | None:
    """How a device may make of a JPEG file what `solar.images.load` does.

    None where Pillow must decode it. A SolarError if the box misses the photo, or the size makes no
    sense, as `load` has it.
    """
    header = plain_header(data)
    if header is None or header.width * header.height > max_pixels:
        return None
    orientation = 1
    if orient and header.metadata:
        with opened(data) as image:
            orientation = orientation_of(image)
            if image.size != (header.width, header.height):
                return None
    stored = header.width, header.height
    upright = stored if orientation < 5 else stored[::-1]
    limit: float = size
    left, top, right, bottom = 0, 0, *upright
    if box is not None:
        left, top, right, bottom = pixel_box(box, *upright)
        limit = query_size(upright, (right - left, bottom - top), size)
    target = thumbnail_size(right - left, bottom - top, limit)
    return Reduction(stored, orientation, (left, top, right, bottom), target, header.end)


def _turned(photos: Tensor, orientation: int) -> Tensor:
    if orientation >= 5:
        photos = photos.transpose(2, 3)
    mirrored = [axis for axis, turns in _MIRRORED.items() if orientation in turns]
    return photos.flip(mirrored) if mirrored else photos
