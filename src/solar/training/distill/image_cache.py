"""Unlabelled photos, decoded once and kept in memory for training.

A photo is squashed into a square, and its aspect ratio is kept. So all have one shape, a batch is
a single look-up on the device, and crops may be anywhere; `solar.training.augment` undoes the
squashing when it resamples the photo.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from solar.arrays import Pixels
from solar.datasets.seeds import generator
from solar.describe.prefetch import ahead
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.images import Photos, find_photos, image_size, load

Cache = Literal["device", "host", "none"]

_PEEK = 16  # photos of a source whose size is read
_AHEAD = 2  # steps looked up in advance


@dataclass(frozen=True)
class Squares:
    """Photos squashed into squares."""

    pixels: Tensor  # (b, 3, side, side) bytes
    aspects: Tensor  # (b,) width over height of the original photos; on the CPU


class ImageCache:
    """Photos of one stored size, ready to be looked up; made by `cache_images`."""

    def __init__(
        self, photos: Photos, side: int, *, cache: Cache, device: torch.device, workers: int
    ) -> None:
        self.photos, self.side = photos, side  # after `fill` only readable ones
        self.failures: list[tuple[str, str]] = []  # name and reason
        self._cache, self._device, self._workers = cache, device, workers
        self._pixels: Tensor | None = None
        self._aspects = torch.ones(len(photos))

    def __len__(self) -> int:
        return len(self.photos)

    def select(self, numbers: Tensor) -> Squares:
        """Look up photos by their numbers, (b,) on the CPU; the pixels are on the device.

        With cache "none", a SolarError if a photo cannot be read.
        """
        if self._pixels is None:
            pixels, aspects = self._decode(numbers.tolist())
        else:
            pixels = self._pixels[numbers.to(self._pixels.device)]
            aspects = self._aspects[numbers]
        if pixels.device.type != self._device.type:
            pixels = pixels.pin_memory().to(self._device, non_blocking=True)
        return Squares(pixels.movedim(-1, 1), aspects)

    def fill(self, advance: Callable[[int], None]) -> None:
        """Decode all photos, unless the cache is "none"; unreadable ones are dropped.

        A SolarError if no photo can be read.
        """
        if self._cache == "none":
            return
        at = self._device if self._cache == "device" else torch.device("cpu")
        shape = (len(self), self.side, self.side, 3)
        rows = torch.empty(shape, dtype=torch.uint8, device=at)
        good: list[int] = []
        aspects = []
        found = ahead(self._tried, range(len(self)), self._workers, 8 * self._workers)
        for number, (photo, reason) in enumerate(found):
            if photo is None:
                self.failures.append((self.photos.names[number], reason))
            else:
                rows[len(good)] = torch.from_numpy(photo[0])
                aspects.append(photo[1])
                good.append(number)
            advance(1)
        if not good:
            name, why = self.failures[0]
            raise SolarError(f"No photo could be read; the first was {name}: {why}")
        self.photos = self.photos.select(good)
        self._pixels, self._aspects = rows[: len(good)], torch.tensor(aspects)

    def _tried(self, number: int) -> tuple[tuple[Pixels, float] | None, str]:
        try:
            return self._square(number), ""
        except SolarError as error:
            return None, str(error)

    def _square(self, number: int) -> tuple[Pixels, float]:
        """A photo, upright and squashed into (side, side, 3) bytes, with its aspect ratio."""
        photo = load(self.photos.read(number), 2 * self.side, mode="fast")
        image, sides = Image.fromarray(photo.pixels), (self.side, self.side)
        squashed = np.array(image.resize(sides, Image.Resampling.BICUBIC))
        return squashed, photo.width / photo.height

    def _decode(self, numbers: list[int]) -> tuple[Tensor, Tensor]:
        with ThreadPoolExecutor(self._workers) as pool:
            found = list(pool.map(self._square, numbers))
        pixels = torch.from_numpy(np.stack([photo for photo, _ in found]))
        return pixels, torch.tensor([aspect for _, aspect in found])


def cache_images(
    sources: Sequence[str | Path],
    size: int,
    *,
    cache: Cache = "device",
    device: str | torch.device = "cpu",
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[ImageCache]:
    """Read photos, each source at `size`, or at the size of its photos if that is less.

    Args:
        sources: Folders, `.txt` lists, `.tar` shards or photos.
        size: Largest side of a stored square. 118,000 photos take 9 GB at 160 and 18 GB at 224.
        cache: Keep the pixels on the "device", on the "host", or decode at each look-up ("none").
        device: Of the results of `ImageCache.select`.
        workers: Decoding threads; default: one per core.
        progress: Called after every few photos.

    Returns:
        One cache per stored size, in the order of the sources. A SolarError if a source does not
        exist or has no readable photo.
    """
    by_side: dict[int, list[Photos]] = {}
    for source in sources:
        photos = find_photos(source)
        by_side.setdefault(min(size, _largest(photos, size)), []).append(photos)
    place, workers = torch.device(device), workers or os.cpu_count() or 1
    caches = [
        ImageCache(_joined(parts), side, cache=cache, device=place, workers=workers)
        for side, parts in by_side.items()
    ]
    advance = counted(progress, "Reading photos", sum(map(len, caches)))
    for images in caches:
        images.fill(advance)
    return caches


class Order:
    """The photos of each step, numbered through all caches and shuffled anew in each epoch.

    Photos whose names start with a key of `repeat` occur that many times per epoch.
    """

    def __init__(
        self, caches: Sequence[ImageCache], repeat: dict[str, int], batch: int, seed: int
    ) -> None:
        names = [name for images in caches for name in images.photos.names]
        times = [1] * len(names)
        for start, repeats in repeat.items():
            matching = [n for n, name in enumerate(names) if name.startswith(start)]
            if not matching:
                raise SolarError(f"data.repeat names {start!r}, but no photo name starts with it.")
            for n in matching:
                times[n] = max(times[n], repeats)
        self._numbers = torch.arange(len(names)).repeat_interleave(torch.tensor(times))
        self.epoch, self._batch, self._seed = len(self._numbers), batch, seed
        self._shuffled = lru_cache(2)(self._shuffle)

    def __call__(self, step: int) -> Tensor:
        """The photos (batch,) of a step."""
        found: list[Tensor] = []
        start = step * self._batch
        while (missing := self._batch - sum(map(len, found))) > 0:
            epoch, at = divmod(start, self.epoch)
            found.append(self._shuffled(epoch)[at : at + missing])
            start += len(found[-1])
        return torch.cat(found)

    def _shuffle(self, epoch: int) -> Tensor:
        chance = generator(self._seed, -1 - epoch)
        return self._numbers[torch.randperm(self.epoch, generator=chance)]


def batches(
    caches: Sequence[ImageCache], numbers: Callable[[int], Tensor], first: int, last: int
) -> Iterator[list[Squares]]:
    """Look up the photos of steps `first` to `last` − 1 in advance, a list by cache for each step.

    `numbers` gives the photos of a step, numbered through all caches.
    """
    starts = np.cumsum([0, *map(len, caches)])

    def look_up(step: int) -> list[Squares]:
        wanted = numbers(step)
        which = torch.from_numpy(np.searchsorted(starts[1:], wanted.numpy(), side="right"))
        parts = [wanted[which == n] - int(starts[n]) for n in range(len(caches))]
        pairs = zip(caches, parts, strict=True)
        return [images.select(part) for images, part in pairs if len(part)]

    # One thread, as each look-up may use several.
    return ahead(look_up, range(first, last), 1, _AHEAD)


def _joined(parts: Sequence[Photos]) -> Photos:
    return Photos(
        tuple(name for part in parts for name in part.names),
        tuple(place for part in parts for place in part.places),
    )


def _largest(photos: Photos, otherwise: int) -> int:
    """The longest side among the first few readable photos of a source."""
    sides = []
    for number in range(min(_PEEK, len(photos))):
        try:
            sides.append(max(image_size(photos.read(number))))
        except SolarError:
            continue  # reported when it is decoded
    return max(sides, default=otherwise)
