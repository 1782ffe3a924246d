"""Photos to squares, cut at random: the same cut for the same key, whatever thread makes it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from solar.describe.pipeline import ahead, decoders_for, prefetched
from solar.errors import SolarError
from solar.images import Photos, read_image
from solar.training.retrieval_recipe import Images

Pixels = NDArray[np.uint8]
Key = tuple[int, ...]

# What a key is for, so that mining and training cut the same photo differently.
TRAINING, MINING = 0, 1


def random_square(image: Image.Image, size: int, key: Key) -> Pixels:
    """Cut a random square as large as the photo allows, then resize it, enlarging small photos.

    Args:
        image: RGB.
        size: Side of the result.
        key: Decides where; the same for the same key.

    Returns:
        (size, size, 3).
    """
    side = min(image.size)
    left, top = _places((image.width - side, image.height - side), key)
    box = (left, top, left + side, top + side)
    # Cut first, then resize: a resize with a box would let pixels beyond it in.
    return np.array(image.crop(box).resize((size, size), Image.Resampling.BILINEAR))


def random_part(image: Image.Image, size: int, key: Key) -> Pixels:
    """Resize the shorter side, then cut a random square: how photos are described for mining.

    Arguments and result as for `random_square`, of which this differs by the order only.
    """
    short = min(image.size)
    width, height = (size * side // short for side in image.size)
    small = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = _places((width - size, height - size), key)
    return np.array(small.crop((left, top, left + size, top + size)))


def random_bucket(image: Image.Image, size: int, ratios: Sequence[float], key: Key) -> Pixels:
    """Cut as much as possible in the nearest of some ratios, then resize.

    Args:
        image: RGB.
        size: Side of the square that has the result's area.
        ratios: Widths by heights.
        key: Decides where; the same for the same key.

    Returns:
        (h, w, 3), h and w multiples of 32.
    """
    own = image.width / image.height
    ratio = min(ratios, key=lambda one: abs(np.log(one / own)))
    width, height = (max(32, 32 * round(size * f / 32)) for f in (ratio**0.5, ratio**-0.5))
    scale = min(image.width / width, image.height / height)
    wide, high = min(image.width, round(width * scale)), min(image.height, round(height * scale))
    left, top = _places((image.width - wide, image.height - high), key)
    part = image.crop((left, top, left + wide, top + high))
    return np.array(part.resize((width, height), Image.Resampling.BILINEAR))


def _places(room: Sequence[int], key: Key) -> list[int]:
    # `random` alone: NumPy may change what its other distributions draw.
    chance = np.random.default_rng(key).random(len(room))
    return [int(one * (space + 1)) for one, space in zip(chance.tolist(), room, strict=True)]


@dataclass(frozen=True)
class TupleBatch:
    """Pixels of a batch, those of one shape together.

    Attributes:
        groups: (n, h, w, 3) bytes each.
        order: Where each photo of the batch is in the groups, laid end to end.
    """

    groups: list[Tensor]
    order: Tensor

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
    """Reads photos for training, ahead of their use.

    Args:
        photos: All photos; tuples name them by number.
        settings: How they are cut.
        seed: Of all cuts.
        device: Decides how many threads decode, and whether batches go to memory that a GPU can
            fetch by itself.
    """

    def __init__(self, photos: Photos, settings: Images, seed: int, device: torch.device) -> None:
        self.photos, self.settings, self.seed = photos, settings, seed
        self.pin = device.type == "cuda"
        self.threads = settings.threads or decoders_for(device)
        self.unreadable: dict[str, str] = {}

    def squares(self, numbers: Sequence[int], size: int, key: Key) -> Iterator[Pixels | None]:
        """Random squares of photos, in order; None for a photo that cannot be read.

        Args:
            numbers: Of the photos.
            size: Side of a square.
            key: Decides the cuts, together with a photo's number.
        """
        key = (self.seed, MINING, *key)

        def read(number: int) -> Pixels | None:
            image = self._open(number)
            return None if image is None else random_part(image, size, (*key, number))

        return ahead(read, numbers, self.threads, 8 * self.threads)

    def batches(
        self, tuples: Tensor, numbers: Sequence[int], size: int, epoch: int
    ) -> Iterator[TupleBatch]:
        """Batches of whole tuples, in order.

        Args:
            tuples: (q, s) photos; query, positive, negatives.
            numbers: Of the tuples to read.
            size: Tuples a batch.
            epoch: Decides the cuts, together with a tuple's number and a photo's place in it.
        """

        def read(number: int) -> list[Pixels]:
            return self._tuple(tuples[number].tolist(), (self.seed, TRAINING, epoch, number))

        # Two batches wait while one is computed.
        rows = ahead(read, numbers, self.threads, 2 * size + self.threads)
        batches = self._stacked(rows, size)
        return prefetched(batches, 2) if self.pin else batches

    def _stacked(self, rows: Iterator[list[Pixels]], size: int) -> Iterator[TupleBatch]:
        while some := list(islice(rows, size)):
            yield TupleBatch.of([pixels for row in some for pixels in row], pin=self.pin)

    def _tuple(self, numbers: list[int], key: Key) -> list[Pixels]:
        opened = [self._open(number) for number in numbers]
        images = _mended(opened)
        if images is None:
            names = ", ".join(self.photos.names[number] for number in numbers)
            raise SolarError(f"None of the photos {names} can be read any more.")
        return [self._cut(image, (*key, place)) for place, image in enumerate(images)]

    def _cut(self, image: Image.Image, key: Key) -> Pixels:
        if self.settings.shape == "square":
            return random_square(image, self.settings.size, key)
        return random_bucket(image, self.settings.size, self.settings.ratios, key)

    def _open(self, number: int) -> Image.Image | None:
        try:
            return read_image(self.photos.read(number), orient=self.settings.orient)
        except SolarError as error:  # one bad file among a million must not end a run
            self.unreadable[self.photos.names[number]] = str(error)
            return None


def _mended(images: list[Image.Image | None]) -> list[Image.Image] | None:
    """Replace what cannot be read by what plays the same part: a query and its positive, negatives.

    None if a part has nobody left.
    """
    out: list[Any] = []
    for mine in (images[:2], images[2:]):
        there = [image for image in mine if image is not None]
        if mine and not there:
            return None
        out += [there[0] if image is None else image for image in mine]
    return out
