"""Unlabelled photos, decoded once and kept in memory for training.

A photo is squashed into a square and its aspect ratio kept beside it. So all have one shape, a
batch is a single look-up on the device, nothing is cut off before training chooses its crops, and
`solar.training.augment` undoes the squashing when it resamples the photo anyway.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from solar.datasets.seeds import generator
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.images import Photos, find_photos, image_size
from solar.training.distill.square_decoding import fill, square

Cache = Literal["device", "host", "none"]

_PEEK = 16  # photos of a source that are asked for their size
_CHUNK = 256  # photos a task of a process
_WORTH_PROCESSES = 2000  # below, threads are done before processes have started
_AHEAD = 3  # steps looked up before they are asked for


@dataclass(frozen=True)
class Squares:
    """Photos squashed into squares."""

    pixels: Tensor  # (b, 3, side, side) bytes
    aspects: Tensor  # (b,) width over height of the photos as they were; on the CPU


class ImageCache:
    """Photos of one stored size, ready to be looked up; made by `cache_images`."""

    def __init__(
        self, photos: Photos, side: int, *, cache: Cache, device: torch.device, workers: int
    ) -> None:
        self.photos, self.side = photos, side  # after `fill`, those that could be read
        self.failures: list[tuple[str, str]] = []  # name and reason of the others
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
        """Decode everything, unless nothing is to be kept; what cannot be read is left out.

        A SolarError if no photo can be read, or if a process that decodes them was killed.
        """
        if self._cache == "none":
            return
        shape = (len(self), self.side, self.side, 3)
        with tempfile.TemporaryDirectory(prefix="solar-") as folder:
            file = Path(folder) / "squares.npy"
            rows = np.lib.format.open_memmap(file, "w+", np.uint8, shape)
            aspects, reasons = self._decode_into(file, advance)
            names = zip(self.photos.names, reasons, strict=True)
            self.failures = [(name, reason) for name, reason in names if reason is not None]
            good = np.flatnonzero([reason is None for reason in reasons])
            if not len(good):
                name, why = self.failures[0]
                raise SolarError(f"No photo could be read; the first was {name}: {why}")
            self.photos = self.photos.select(good.tolist())
            self._aspects = torch.tensor(aspects)[good]
            # A copy of the file's pages: read once, in order, by whatever device it is.
            at = self._device if self._cache == "device" else torch.device("cpu")
            self._pixels = torch.empty((len(good), *shape[1:]), dtype=torch.uint8, device=at)
            for start in range(0, len(good), 1 << 14):
                part = torch.from_numpy(rows[good[start : start + (1 << 14)]])
                self._pixels[start : start + len(part)] = part
            del rows

    def _decode_into(
        self, file: Path, advance: Callable[[int], None]
    ) -> tuple[list[float], list[str | None]]:
        starts = range(0, len(self), _CHUNK)
        parts = [self.photos.select(range(len(self))[s : s + _CHUNK]) for s in starts]
        aspects: list[float] = []
        reasons: list[str | None] = []
        try:
            with self._executor() as pool:
                for told in pool.map(fill, [file] * len(parts), starts, parts):
                    aspects += told[0]
                    reasons += told[1]
                    advance(len(told[0]))
        except BrokenProcessPool as error:
            raise SolarError(
                "A process that decodes photos was killed: free some memory, or use fewer workers."
            ) from error
        return aspects, reasons

    def _executor(self) -> Executor:
        if self._workers == 1 or len(self.photos) < _WORTH_PROCESSES:
            return ThreadPoolExecutor(self._workers)
        # Started afresh: a copy of a process that holds a GPU or threads may hang.
        return ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"))

    def _decode(self, numbers: list[int]) -> tuple[Tensor, Tensor]:
        with ThreadPoolExecutor(self._workers) as pool:
            found = list(pool.map(lambda n: square(self.photos, n, self.side), numbers))
        pixels = torch.from_numpy(np.stack([one for one, _ in found]))
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
    """Read photos, each source at `size` or at what its own photos have if that is less.

    Args:
        sources: Folders, `.txt` lists, `.tar` shards or photos.
        size: Largest side of a stored square. 118,000 photos take 9 GB at 160 and 18 GB at 224.
        cache: Keep the pixels on the "device", on the "host", or decode at each look-up ("none").
        device: Where `ImageCache.select` gives them.
        workers: Processes (threads for few photos) that decode; default: one per core.
        progress: Called after every few photos.

    Returns:
        One for each stored size that occurs, in the order of the sources. A SolarError if there is
        no such source, or nothing in it can be read.
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
    for one in caches:
        one.fill(advance)
    return caches


class Order:
    """Which photos a step sees: all of them, shuffled, then all of them in another order.

    The caches' photos are numbered through; an epoch has those whose names start with a key of
    `repeat` as often as its value says.
    """

    def __init__(
        self, caches: Sequence[ImageCache], repeat: dict[str, int], batch: int, seed: int
    ) -> None:
        names = [name for one in caches for name in one.photos.names]
        unknown = [start for start in repeat if not any(n.startswith(start) for n in names)]
        if unknown:
            raise SolarError(f"data.repeat names {unknown[0]!r}, but no photo name starts with it.")
        times = [_times(name, repeat) for name in names]
        self._numbers = torch.arange(len(names)).repeat_interleave(torch.tensor(times))
        self.epoch, self._batch, self._seed = len(self._numbers), batch, seed
        self._shuffled = lru_cache(2)(self._shuffle)

    def __call__(self, step: int) -> Tensor:
        """Numbers (batch,) of the photos of a step."""
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
    """Look up the photos of steps `first` to `last` − 1, a few steps ahead of the one that asks.

    Yields:
        For each step the photos of each cache that has some in it. `numbers` gives those of a step,
        numbered through in the order of the caches.
    """
    starts = np.cumsum([0, *map(len, caches)])

    def look_up(step: int) -> list[Squares]:
        wanted = numbers(step)
        which = torch.from_numpy(np.searchsorted(starts[1:], wanted.numpy(), side="right"))
        parts = [wanted[which == n] - int(starts[n]) for n in range(len(caches))]
        return [one.select(part) for one, part in zip(caches, parts, strict=True) if len(part)]

    # One thread: steps come in order, and each look-up may use several threads of its own.
    with ThreadPoolExecutor(1) as pool:
        waiting: list[Future[list[Squares]]] = []
        try:
            for step in range(first, last):
                while len(waiting) < _AHEAD and step + len(waiting) < last:
                    waiting.append(pool.submit(look_up, step + len(waiting)))
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


def _times(name: str, repeat: dict[str, int]) -> int:
    return max((times for start, times in repeat.items() if name.startswith(start)), default=1)


def _joined(parts: Sequence[Photos]) -> Photos:
    return Photos(
        tuple(name for part in parts for name in part.names),
        tuple(place for part in parts for place in part.places),
    )


def _largest(photos: Photos, otherwise: int) -> int:
    """The longest side among the first few photos of a source, if any can be read."""
    sides = []
    for number in range(min(_PEEK, len(photos))):
        try:
            sides.append(max(image_size(photos.read(number))))
        except SolarError:
            continue  # told about when it is decoded
    return max(sides, default=otherwise)
