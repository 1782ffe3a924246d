"""Photos of equal size become batches, within a budget of pixels."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from solar.defaults import BATCH, BATCH_PIXELS

Key = TypeVar("Key")


@dataclass(frozen=True)
class Batch(Generic[Key]):
    """Photos of one size: which they are, and their (h, w, 3) arrays or tensors."""

    keys: list[Key]
    pixels: list[Any]


@dataclass
class Batcher(Generic[Key]):
    """Collects photos by size and hands out batches.

    Nothing is padded or resized, so a photo's descriptor does not depend on its neighbours. Which
    photos share a batch depends only on the order in which they come. At most four times the budget
    and eight batches' number of photos wait at any moment; beyond that the size with the most
    pixels goes early.
    """

    most: int = BATCH  # photos per batch
    budget: int = BATCH_PIXELS  # pixels per batch (a photo larger than that goes alone)
    _waiting: dict[tuple[int, ...], Batch[Key]] = field(default_factory=dict)
    _pixels: int = 0
    _photos: int = 0

    def add(self, key: Key, pixels: Any) -> Iterator[Batch[Key]]:
        """Take one photo; yield the batches that are full now."""
        size = tuple(pixels.shape)
        batch = self._waiting.setdefault(size, Batch([], []))
        batch.keys.append(key)
        batch.pixels.append(pixels)
        area = size[0] * size[1]
        self._pixels += area
        self._photos += 1
        if len(batch.keys) >= self.most or (len(batch.keys) + 1) * area > self.budget:
            yield self._take(size)
        while self._pixels > 4 * self.budget or self._photos > 8 * self.most:
            yield self._take(max(self._waiting, key=self._held))

    def flush(self) -> Iterator[Batch[Key]]:
        """Yield all that still wait, in the order in which their sizes came up."""
        for size in list(self._waiting):
            yield self._take(size)

    def _held(self, size: tuple[int, ...]) -> int:
        return len(self._waiting[size].keys) * size[0] * size[1]

    def _take(self, size: tuple[int, ...]) -> Batch[Key]:
        self._pixels -= self._held(size)
        batch = self._waiting.pop(size)
        self._photos -= len(batch.keys)
        return batch
