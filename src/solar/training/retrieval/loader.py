"""Photos to squares, cut at random: the same cut for the same key, whatever thread makes it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from solar.arrays import Pixels
from solar.datasets.labelled.training_set import PhotoList
from solar.describe.pipeline import decoders_for
from solar.describe.prefetch import ahead, prefetched
from solar.errors import SolarError
from solar.images import read_image
from solar.training.retrieval.recipe import Images

Key = tuple[int, ...]

# What a key is for, so that mining and training cut the same photo differently.
TRAINING, MINING = 0, 1
_TRIES = 100  # photos in a row that cannot be read, before a run ends


def random_square(image: Image.Image, size: int, key: Key) -> Pixels:
    """Cut a random square as large as the photo allows, then resize it, enlarging small photos.

    The key decides where. Gives (size, size, 3).
    """
    side = min(image.size)
    # Cut first, then resize: a resize with a box would let pixels beyond it in.
    part = _cut(image, side, side, key)
    return np.array(part.resize((size, size), Image.Resampling.BILINEAR))


def random_part(image: Image.Image, size: int, key: Key) -> Pixels:
    """Resize the shorter side, then cut a random square: how photos are described for mining.

    Arguments and result as for `random_square`, of which this differs by the order only.
    """
    short = min(image.size)
    width, height = (size * side // short for side in image.size)
    small = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.array(_cut(small, size, size, key))


def random_bucket(image: Image.Image, size: int, ratios: Sequence[float], key: Key) -> Pixels:
    """Cut as much as possible in the nearest of some ratios (widths by heights), then resize.

    The key decides where. Gives (h, w, 3), multiples of 32, of about the area of a square of this
    size.
    """
    own = image.width / image.height
    ratio = min(ratios, key=lambda one: abs(np.log(one / own)))
    width, height = (max(32, 32 * round(size * f / 32)) for f in (ratio**0.5, ratio**-0.5))
    scale = min(image.width / width, image.height / height)
    wide, high = min(image.width, round(width * scale)), min(image.height, round(height * scale))
    part = _cut(image, wide, high, key)
    return np.array(part.resize((width, height), Image.Resampling.BILINEAR))


def random_crop(image: Image.Image, size: int, least: float, key: Key) -> Pixels:
    """Cut a random part, up to a third wider or narrower than high, and squeeze it into a square.

    It has `least` of the area or more, unless a long photo has no such part. The key decides all of
    it. Gives (size, size, 3).
    """
    # The first two of these numbers are the ones by which `_cut` chooses where.
    _, _, area, ratio = np.random.default_rng(key).random(4).tolist()
    pixels = (least + (1 - least) * area) * image.width * image.height
    stretch = (4 / 3) ** (2 * ratio - 1)
    width = min(image.width, (pixels * stretch) ** 0.5)
    height = min(image.height, (pixels / stretch) ** 0.5, width * 4 / 3)
    width, height = (max(1, round(side)) for side in (min(width, height * 4 / 3), height))
    part = _cut(image, width, height, key)
    return np.array(part.resize((size, size), Image.Resampling.BILINEAR))


def _cut(image: Image.Image, width: int, height: int, key: Key) -> Image.Image:
    # `random` alone: NumPy may change what its other distributions draw.
    x, y = np.random.default_rng(key).random(2).tolist()
    left, top = int(x * (image.width - width + 1)), int(y * (image.height - height + 1))
    return image.crop((left, top, left + width, top + height))


@dataclass(frozen=True)
class TupleBatch:
    """Pixels of a batch, those of one shape together."""

    groups: list[Tensor]
    """(n, h, w, 3) bytes each."""
    order: Tensor
    """Where each photo of the batch is in the groups, laid end to end."""

    @classmethod
    def of(cls, pixels: Sequence[Pixels], *, pin: bool = False) -> "TupleBatch":
        """Put photos of one shape together."""
        shapes = sorted({one.shape for one in pixels})
        places = [[n for n, one in enumerate(pixels) if one.shape == shape] for shape in shapes]
        groups = []
        for shape, mine in zip(shapes, places, strict=True):
            group = torch.empty((len(mine), *shape), dtype=torch.uint8, pin_memory=pin)
            np.stack([pixels[n] for n in mine], out=group.numpy())
            groups.append(group)
        order = torch.empty(len(pixels), dtype=torch.int64)
        order[torch.tensor([n for mine in places for n in mine])] = torch.arange(len(pixels))
        return cls(groups, order)


class Loader:
    """Reads photos, which tuples name by number, for training, ahead of their use.

    The device decides how many threads decode, and whether batches go to memory that a GPU can
    fetch by itself.
    """

    def __init__(
        self, photos: PhotoList, settings: Images, seed: int, device: torch.device
    ) -> None:
        self.photos, self.settings, self.seed = photos, settings, seed
        self.pin = device.type == "cuda"
        self.threads = settings.threads or decoders_for(device)
        self.unreadable: dict[str, str] = {}

    def squares(self, numbers: Sequence[int], size: int, key: Key) -> Iterator[Pixels | None]:
        """Random squares of photos, in order; None for a photo that cannot be read.

        The key decides the cuts, together with a photo's number.
        """
        key = (self.seed, MINING, *key)

        def read(number: int) -> Pixels | None:
            image = self._open(number)
            return None if image is None else random_part(image, size, (*key, number))

        return ahead(read, numbers, self.threads, 8 * self.threads)

    def batches(
        self, tuples: Tensor, numbers: Sequence[int], size: int, epoch: int
    ) -> Iterator[TupleBatch]:
        """Batches of `size` whole tuples of (q, s) photos, those of the numbers, in order.

        The epoch decides the cuts, together with a tuple's number and a photo's place in it.
        """

        def read(number: int) -> list[Pixels]:
            return self._tuple(tuples[number].tolist(), (self.seed, TRAINING, epoch, number))

        def stack() -> Iterator[TupleBatch]:
            # Two batches wait while one is computed.
            rows = ahead(read, numbers, self.threads, 2 * size + self.threads)
            while some := list(islice(rows, size)):
                yield TupleBatch.of([pixels for row in some for pixels in row], pin=self.pin)

        return prefetched(stack(), 2) if self.pin else stack()

    def photo_batches(
        self, order: Tensor, places: Iterable[int], size: int, epoch: int
    ) -> Iterator[tuple[TupleBatch, Tensor]]:
        """Batches of `size` photos, those at these places of an order (n,), and their numbers.

        One that cannot be read is replaced by the next in the set that can. The epoch decides the
        cuts, together with the place.
        """

        def read(place: int) -> tuple[Pixels, int]:
            first = int(order[place])
            for number in (n % len(self.photos) for n in range(first, first + _TRIES)):
                if (image := self._open(number)) is not None:
                    return self._shaped(image, (self.seed, TRAINING, epoch, int(place))), number
            raise SolarError(
                f"{self.photos.names[first]} cannot be read any more, nor can any photo after it."
            )

        def stack() -> Iterator[tuple[TupleBatch, Tensor]]:
            photos = ahead(read, places, self.threads, 2 * size + self.threads)
            while some := list(islice(photos, size)):
                numbers = torch.tensor([number for _, number in some])
                yield TupleBatch.of([pixels for pixels, _ in some], pin=self.pin), numbers

        return prefetched(stack(), 2) if self.pin else stack()

    def _tuple(self, numbers: list[int], key: Key) -> list[Pixels]:
        images = _mended([self._open(number) for number in numbers])
        if images is None:
            names = ", ".join(self.photos.names[number] for number in numbers)
            raise SolarError(f"None of the photos {names} can be read any more.")
        return [self._shaped(image, (*key, n)) for n, image in enumerate(images)]

    def _shaped(self, image: Image.Image, key: Key) -> Pixels:
        settings = self.settings
        if settings.shape == "buckets":
            return random_bucket(image, settings.size, settings.ratios, key)
        if settings.shape == "crop":
            return random_crop(image, settings.size, settings.min_area, key)
        return random_square(image, settings.size, key)

    def _open(self, number: int) -> Image.Image | None:
        try:
            return read_image(self.photos.read(number), orient=self.settings.orient)
        except SolarError as error:  # one bad file among a million must not end a run
            self.unreadable[self.photos.names[number]] = str(error)
            return None


def _mended(images: list[Image.Image | None]) -> list[Image.Image] | None:
    """Replace what cannot be read by what plays the same part: a query and its positive, negatives.

    None if a part has no photo left.
    """
    out: list[Any] = []
    for mine in (images[:2], images[2:]):
        there = [image for image in mine if image is not None]
        if mine and not there:
            return None
        out += [there[0] if image is None else image for image in mine]
    return out
