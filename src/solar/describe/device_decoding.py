"""Photos are decoded, turned and shrunk on a GPU; what it does not take, Pillow's threads read.

Threads read files ahead, into memory that the GPU fetches from. The GPU's JPEG engine decodes a
group of them at a time, and the small results stay where the network needs them. Photos come out in
the order asked for, with the errors that Pillow has for them. The memory that this takes depends on
neither number nor size of the photos: groups have a budget, and what is larger goes to Pillow.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from solar.describe.prefetch import ahead, prefetched
from solar.errors import SolarError
from solar.images import DecodedImage, Photos, Stamp
from solar.images.exif import exif_facts
from solar.images.gpu import Reduction
from solar.images.sources import FileFacts, PhotoFile

JpegEngine = Callable[[list[Tensor]], list[Tensor]]
"""JPEG files, (n,) bytes in main memory, to (3, h, w) bytes on a device.

A RuntimeError if it refuses any of them, or has no memory left.
"""

GROUP = 32
"""Photos that are decoded together, at most."""

GROUP_BYTES = 2**30
"""Decoded pixels of a group, at most: 28 photos of 12 megapixels."""

LARGEST_FILE, LARGEST_PHOTO = 32 * 2**20, 200 * 2**20
"""Bytes of a file, and of its decoded pixels, beyond which Pillow decodes it."""

_STACKED_BYTES = 256 * 2**20  # decoded pixels that are shrunk at a time


@dataclass(frozen=True, eq=False, slots=True)
class DeviceImage:
    """A photo ready to be described, on a device."""

    pixels: Tensor  # (h, w, 3) bytes
    width: int  # of the whole, upright photo, like its height
    height: int


Decoded = tuple[int, DecodedImage | DeviceImage | str, FileFacts | None]
"""The number of a photo, its pixels or why there are none, and what its file says."""

Content = tuple[PhotoFile, Stamp]
"""The file of a photo, read once."""

PillowDecode = Callable[[int, Content | None], Decoded]
"""Decodes a photo without a GPU; its file is only read where no content is given."""

Plan = Callable[[int, bytes], Reduction | None]
"""The number of a photo and its file to what is to be done on a device; None: Pillow decodes it."""


@dataclass(frozen=True, eq=False, slots=True)
class _Encoded:
    number: int
    content: Content
    data: Tensor
    plan: Reduction


class DeviceDecoding:
    """Decodes photos on a device; `threads` read files, and decode what it does not by Pillow."""

    def __init__(
        self,
        photos: Photos,
        plan: Plan,
        by_pillow: PillowDecode,
        engine: JpegEngine,
        device: torch.device,
        threads: int,
    ) -> None:
        self.photos, self.plan, self.by_pillow = photos, plan, by_pillow
        self.engine, self.device, self.threads = engine, device, max(1, threads)
        # The engine decodes a group while the one before is shrunk, and the network waits for none.
        self._decoding, self._shrinking = _own_stream(device), _own_stream(device)

    def stream(self, numbers: Iterable[int], most: int) -> Iterator[Decoded]:
        """Decoded photos in the order asked for; about `most` files are read ahead."""
        groups = self._groups(numbers, most)
        decoded = ((group, self._decoded(_encoded(group))) for group in groups)
        for group, pixels in prefetched(decoded, 1):
            yield from self._finished(group, pixels)

    def _groups(self, numbers: Iterable[int], most: int) -> Iterator[list[_Encoded | Decoded]]:
        group: list[_Encoded | Decoded] = []
        held = 0
        for one in ahead(self._read, numbers, self.threads, most):
            size = one.plan.nbytes if isinstance(one, _Encoded) else 0
            if len(group) == GROUP or held + size > GROUP_BYTES:
                yield group
                group, held = [], 0
            group.append(one)
            held += size
        yield group

    def _read(self, number: int) -> _Encoded | Decoded:
        """Read a file for the device, or decode it by Pillow here in a thread."""
        content = None
        try:
            content = self.photos.content(number)
            data = content[0].data
            plan = self.plan(number, data) if len(data) <= LARGEST_FILE else None
            if plan is not None and plan.nbytes <= LARGEST_PHOTO:
                photo = _staged(memoryview(data)[: plan.end], self.device)
                return _Encoded(number, content, photo, plan)
        except SolarError:
            pass  # Pillow's way tries again, or says what is wrong
        return self.by_pillow(number, content)

    def _decoded(self, encoded: Sequence[_Encoded]) -> dict[int, Tensor]:
        """What the device decodes, by number: (3, h, w) bytes there."""
        if not encoded:
            return {}
        try:
            with _until_done(self._decoding):
                pixels = self.engine([one.data for one in encoded])
        except RuntimeError:  # an engine that refuses one photo gives none of the others
            if len(encoded) == 1:
                return {}
            half = len(encoded) // 2
            return self._decoded(encoded[:half]) | self._decoded(encoded[half:])
        return {
            one.number: photo
            for one, photo in zip(encoded, pixels, strict=True)
            if tuple(photo.shape) == (3, *one.plan.stored[::-1])
        }

    def _finished(
        self, group: Sequence[_Encoded | Decoded], pixels: dict[int, Tensor]
    ) -> Iterator[Decoded]:
        encoded = _encoded(group)
        images = self._shrunk([one for one in encoded if one.number in pixels], pixels)
        refused = [one for one in encoded if one.number not in images]
        others = ahead(
            lambda one: self.by_pillow(one.number, one.content), refused, self.threads, len(refused)
        )
        for one in group:
            if not isinstance(one, _Encoded):
                yield one
            elif one.number in images:
                file, stamp = one.content
                yield one.number, images[one.number], FileFacts(stamp, exif_facts(file))
            else:
                yield next(others)

    def _shrunk(
        self, encoded: Sequence[_Encoded], pixels: dict[int, Tensor]
    ) -> dict[int, DeviceImage]:
        """Turned and reduced on the device; without those for which it has no memory left."""
        images: dict[int, DeviceImage] = {}
        alike: dict[Reduction, list[int]] = {}
        for one in encoded:
            alike.setdefault(one.plan, []).append(one.number)
        for plan, numbers in alike.items():
            step = max(1, _STACKED_BYTES // plan.nbytes)
            for start in range(0, len(numbers), step):
                some = numbers[start : start + step]
                try:
                    # The engine writes without asking whether earlier work still reads the memory
                    # that it is given: hence nothing is let go of before this has ended.
                    with _until_done(self._shrinking):
                        small = plan.apply(torch.stack([pixels[number] for number in some]))
                except RuntimeError:
                    continue
                for number, photo in zip(some, small, strict=True):
                    images[number] = DeviceImage(photo, *plan.upright)
        return images


def _encoded(group: Sequence[_Encoded | Decoded]) -> list[_Encoded]:
    return [one for one in group if isinstance(one, _Encoded)]


def _own_stream(device: torch.device) -> torch.cuda.Stream | None:
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def _until_done(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Work beside other work on a device; it has ended when this is left."""
    if stream is None:
        yield
        return
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()


def jpeg_engine(device: torch.device) -> JpegEngine | None:
    """The JPEG engine of a GPU, through torchvision; None where there is none that works."""
    if device.type != "cuda":
        return None
    place = torch.device("cuda", device.index or 0)
    try:
        from torchvision.io import ImageReadMode, decode_jpeg

        def decode(files: list[Tensor]) -> list[Tensor]:
            decoded: list[Tensor] = decode_jpeg(files, ImageReadMode.RGB, place)
            return decoded

        decode([_staged(_drawn_jpeg(), device)])
    except Exception:  # a torchvision that does not fit torch or the driver raises anything
        return None
    return decode


def _drawn_jpeg() -> bytes:
    """A photo to try an engine with."""
    file = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").save(file, "JPEG")
    return file.getvalue()


def _staged(data: bytes | memoryview, device: torch.device) -> Tensor:
    """The bytes of a file in memory that a GPU can fetch by itself where there is one."""
    staged = torch.empty(len(data), dtype=torch.uint8, pin_memory=device.type == "cuda")
    staged.numpy()[:] = np.frombuffer(data, np.uint8)
    return staged
