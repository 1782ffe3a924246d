"""Reading photos for training, as random crops that a key decides."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from solar.arrays import Pixels
from solar.describe.pipeline import decoders_for
from solar.describe.prefetch import ahead, prefetched
from solar.errors import SolarError
from solar.images import Photos, read_image
from solar.training.retrieval.recipe import Images

Key = tuple[int, ...]

# Part of a key, so that mining and training cut the same photo differently.
TRAINING, MINING = 0, 1


def random_square(image: Image.Image, size: int, key: Key) -> Pixels:
    """Cut the largest square at a random place, then resize it to (size, size, 3)."""
    side = min(image.size)
    # Cut first: a resize with a box would mix in pixels beyond it.
    part = _cut(image, side, side, key)
    return np.array(part.resize((size, size), Image.Resampling.BILINEAR))


def random_part(image: Image.Image, size: int, key: Key) -> Pixels:
    """Resize the shorter side, then cut a random square (size, size, 3), as mining does."""
    short = min(image.size)
    width, height = (size * side // short for side in image.size)
    small = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.array(_cut(small, size, size, key))


def random_bucket(image: Image.Image, size: int, ratios: Sequence[float], key: Key) -> Pixels:
    """Cut as much as possible in the nearest of some ratios (width by height), then resize.

    The sides of the result (h, w, 3) are multiples of 32, and its area is about size².
    """
    aspect = image.width / image.height
    ratio = min(ratios, key=lambda r: abs(np.log(r / aspect)))
    width, height = (max(32, 32 * round(size * f / 32)) for f in (ratio**0.5, ratio**-0.5))
    scale = min(image.width / width, image.height / height)
    wide, high = min(image.width, round(width * scale)), min(image.height, round(height * scale))
    part = _cut(image, wide, high, key)
    return np.array(part.resize((width, height), Image.Resampling.BILINEAR))


def random_crop(image: Image.Image, size: int, least: float, key: Key) -> Pixels:
    """Cut a random part of aspect 3:4 to 4:3 and squeeze it into a square (size, size, 3).

    It has at least the share `least` of the area, unless the photo is too long for that.
    """
    # `_cut` draws the first two of these numbers again for the place.
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
class PhotoBatch:
    """Pixels of a batch, those of one shape together."""

    groups: list[Tensor]
    """(n, h, w, 3) bytes each."""
    order: Tensor
    """Place of each photo of the batch in the concatenated groups."""

    @classmethod
    def of(cls, pixels: Sequence[Pixels], *, pin: bool = False) -> "PhotoBatch":
        """Group photos by shape."""
        shapes = sorted({photo.shape for photo in pixels})
        places = [[n for n, photo in enumerate(pixels) if photo.shape == shape] for shape in shapes]
        groups = []
        for shape, mine in zip(shapes, places, strict=True):
            group = torch.empty((len(mine), *shape), dtype=torch.uint8, pin_memory=pin)
            np.stack([pixels[n] for n in mine], out=group.numpy())
            groups.append(group)
        order = torch.empty(len(pixels), dtype=torch.int64)
        order[torch.tensor([n for mine in places for n in mine])] = torch.arange(len(pixels))
        return cls(groups, order)


class Loader:
    """Reads photos by number in threads, in advance; batches for a GPU are pinned."""

    def __init__(self, photos: Photos, settings: Images, seed: int, device: torch.device) -> None:
        self.photos, self.settings, self.seed = photos, settings, seed
        self.pin = device.type == "cuda"
        self.threads = settings.threads or decoders_for(device)
        self.unreadable: dict[str, str] = {}

    def squares(self, numbers: Sequence[int], size: int, key: Key) -> Iterator[Pixels | None]:
        """Random squares of photos, by the key and a photo's number; None: unreadable."""
        key = (self.seed, MINING, *key)

        def read(number: int) -> Pixels | None:
            image = self._open(number)
            return None if image is None else random_part(image, size, (*key, number))

        return ahead(read, numbers, self.threads, 8 * self.threads)

    def batches(
        self,
        choices: Callable[[int], Sequence[int]],
        places: Iterable[int],
        size: int,
        epoch: int,
    ) -> Iterator[tuple[PhotoBatch, Tensor]]:
        """Batches of `size` photos for some places of an epoch, and the photos' numbers.

        For each place the first readable photo of its choices is taken. The epoch and the place
        decide the crop. A SolarError if none of them can be read.
        """

        def read(place: int) -> tuple[Pixels, int]:
            for number in choices(place):
                if (image := self._open(number)) is not None:
                    return self._shaped(image, (self.seed, TRAINING, epoch, place)), number
            names = ", ".join(self.photos.names[number] for number in choices(place)[:3])
            raise SolarError(f"None of the photos {names} can be read any more.")

        def batches() -> Iterator[tuple[PhotoBatch, Tensor]]:
            # Two batches wait while one is computed.
            found = ahead(read, places, self.threads, 2 * size + self.threads)
            while some := list(islice(found, size)):
                pixels, numbers = zip(*some, strict=True)
                yield PhotoBatch.of(pixels, pin=self.pin), torch.tensor(numbers)

        return prefetched(batches(), 2) if self.pin else batches()

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
        except SolarError as error:  # one bad file must not end a run
            self.unreadable[self.photos.names[number]] = str(error)
            return None
