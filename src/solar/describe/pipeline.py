"""How photos become embeddings.

Reader → decoder → batcher → network → writer. Photos are decoded in other threads (Pillow lets go
of Python's lock while it decodes and resizes) and arrive in order; those of one size share a
forward pass; vectors leave a piece at a time. What a piece holds depends on its photos alone, so
another run computes the same.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from solar.arrays import Floats, Pixels, Vectors
from solar.defaults import BATCH, BATCH_PIXELS
from solar.describe.network import Network, network_of
from solar.describe.prefetch import ahead, prefetched
from solar.describe.progress import Progress, counted, spent
from solar.describe.runtime import Describer, describer
from solar.describe.settings import Settings, for_more
from solar.errors import PassingError, SolarError
from solar.images import Box, Photos, Source, Stamp
from solar.images.exif import exif_facts
from solar.images.sources import FileFacts, PhotoFile

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from solar.describe.device_decoding import Decoded
    from solar.models import RetrievalNet

Key = TypeVar("Key")

# Seconds to wait before a photo is read again that the machine could not read.
_PAUSES = (0.1, 0.5, 2.0)


@dataclass(frozen=True)
class Throughput:
    """How to work; none of it changes which photos are described."""

    decoders: int | None = None  # threads; 0 decodes in between; None: by the machine
    batch: int = BATCH  # photos of one size per forward pass, at most
    pixels: int = BATCH_PIXELS  # per forward pass, at most, which bounds the memory


@dataclass(frozen=True)
class Described:
    """A piece of photos: those with an embedding, in the order of the list, and the others."""

    names: list[str]
    vectors: Vectors | str  # (n, dim), or the digest of a file that a worker has written
    sizes: list[tuple[int, int]]  # width and height, upright
    facts: list[FileFacts]
    failures: dict[str, str]  # why a photo has none, by name


class _Draft:
    """A piece while its photos are described; they may be noted in another thread."""

    def __init__(self, names: Sequence[str], numbers: Sequence[int]) -> None:
        self._names, self._numbers = names, numbers
        self.places = {number: place for place, number in enumerate(numbers)}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._facts: dict[int, FileFacts] = {}
        self._failures: dict[str, str] = {}
        self._vectors: Vectors = np.empty((0, 0), np.float32)
        self._there = np.zeros(len(numbers), np.bool_)

    def note(self, number: int, size: tuple[int, int] | str, facts: FileFacts | None) -> None:
        """Take the size of a photo, or the reason why there is none, and what its file says."""
        if facts is not None:
            self._facts[number] = facts
        if isinstance(size, str):
            self._failures[self._names[number]] = size
        else:
            self._sizes[number] = size

    def take(self, numbers: Sequence[int], rows: Floats) -> int:
        """Take embeddings of some photos; how many are sound."""
        if not len(self._vectors):
            self._vectors = np.empty((len(self._numbers), rows.shape[1]), np.float32)
        sound = np.logical_and.reduce(np.isfinite(rows), axis=1)
        mine = np.array([self.places[number] for number in numbers])
        self._vectors[mine], self._there[mine] = rows, sound
        lost = [self._names[n] for n, fine in zip(numbers, sound, strict=True) if not fine]
        self._failures |= dict.fromkeys(
            lost, "The network makes numbers of it that are not finite."
        )
        return len(numbers) - len(lost)

    @property
    def complete(self) -> bool:
        """Whether every photo has an embedding or a reason why not."""
        return int(self._there.sum()) + len(self._failures) == len(self._numbers)

    def finished(self) -> Described:
        """The piece."""
        there, vectors = self._there, self._vectors
        found = [number for number, fine in zip(self._numbers, there, strict=True) if fine]
        return Described(
            [self._names[number] for number in found],
            vectors if there.all() else vectors[there[: len(vectors)]],
            [self._sizes[number] for number in found],
            [self._facts[number] for number in found],
            self._failures,
        )


@dataclass(frozen=True)
class DescribingJob:
    """What to describe and how; small enough to be sent to workers."""

    photos: Photos
    settings: Settings
    boxes: Mapping[str, Box] = field(default_factory=dict)
    throughput: Throughput = field(default_factory=Throughput)

    def run(
        self,
        pieces: Sequence[Sequence[int]],
        describe: Describer,
        progress: Progress | None = None,
    ) -> Iterator[Described]:
        """Describe pieces of the photos, given by their numbers."""
        advance = counted(progress, "Describing", sum(map(len, pieces)))
        decoded = self._decoded([number for piece in pieces for number in piece], describe)
        return self.described(pieces, decoded, describe, advance)

    def described(
        self,
        pieces: Sequence[Sequence[int]],
        decoded: Iterator[Decoded],
        describe: Describer,
        advance: Callable[[int], None] = lambda photos: None,
    ) -> Iterator[Described]:
        """Describe pieces from a stream of their decoded photos.

        No batch has photos of two pieces, but a GPU need not wait where one ends.
        """
        drafts: deque[_Draft] = deque()

        def batches() -> Iterator[Batch[int]]:
            alike = not getattr(describe, "any_size", False)
            for numbers in pieces:
                draft = _Draft(self.photos.names, numbers)
                drafts.append(draft)
                batcher = Batcher[int](self.throughput.batch, self.throughput.pixels, alike)
                for number, image, facts in islice(decoded, len(numbers)):
                    size = image if isinstance(image, str) else (image.width, image.height)
                    draft.note(number, size, facts)
                    if not isinstance(image, str):
                        yield from batcher.add(number, image.pixels)
                yield from batcher.flush()

        def finished() -> Described:
            found = drafts.popleft().finished()
            if found.failures:
                advance(len(found.failures))
            return found

        for keys, rows in _run(describe, batches()):
            while keys[0] not in drafts[0].places:  # no photo of that piece could be read
                yield finished()
            advance(drafts[0].take(keys, rows))
            if drafts[0].complete:
                yield finished()
        while drafts:
            yield finished()

    def decode(self, number: int, content: tuple[PhotoFile, Stamp] | None = None) -> Decoded:
        """Read and reduce one photo; `content` is its file, if that was read before.

        A PassingError, after a few attempts, if the machine is at fault: the photo must not be
        taken for a damaged one, or it would be left out.
        """
        facts = None
        for pause in (*_PAUSES, None):
            try:
                with spent("reading"):
                    file, stamp = content or self.photos.content(number)
                    facts = FileFacts(stamp, exif_facts(file))
                with spent("decoding"):
                    return number, self.settings.decode(file, self._box(number)), facts
            except PassingError as error:
                if pause is None:
                    raise PassingError(
                        f"{str(error).rstrip('.')}; what is finished is kept: run the same command "
                        "again when that has passed."
                    ) from error
                time.sleep(pause)
            except SolarError as error:
                return number, str(error), facts
        raise AssertionError("unreachable")

    def _box(self, number: int) -> Box | None:
        return self.boxes.get(self.photos.names[number])

    def _decoded(self, numbers: Sequence[int], describe: Describer) -> Iterator[Decoded]:
        """Decoded photos in the order asked for, ahead of their use when there are decoders."""
        decoders = self.throughput.decoders
        if decoders is None:
            decoders = decoders_for(describe.device)
        most = 2 * self.throughput.batch + decoders
        if self.settings.decoder == "device":
            from solar.describe.device_decoding import DeviceDecoding, jpeg_engine

            engine = jpeg_engine(describe.device)
            if engine is not None:
                return DeviceDecoding(
                    self.photos,
                    lambda number, data: self.settings.plan(data, self._box(number)),
                    self.decode,
                    engine,
                    describe.device,
                    decoders,
                ).stream(numbers, most)
        if decoders == 0:
            return map(self.decode, numbers)
        return ahead(self.decode, numbers, decoders, most)


def _run(describe: Describer, batches: Iterator[Batch[int]]) -> Iterator[tuple[list[int], Floats]]:
    """Describe batches; a GPU works on one while the next ones are put together."""
    on_gpu = describe.device.type == "cuda"
    ready = ((batch.keys, as_input(batch.pixels, describe)) for batch in batches)
    running: deque[tuple[list[int], Any]] = deque()
    for keys, pixels in prefetched(ready, 2) if on_gpu else ready:
        with spent("network"):
            running.append((keys, describe(pixels)))
        if len(running) > on_gpu:
            done, vectors = running.popleft()
            yield done, as_rows(vectors)
    for keys, vectors in running:
        yield keys, as_rows(vectors)


def as_input(pixels: Sequence[Pixels | Tensor], describe: Describer) -> Any:
    """Photos as a describer takes them: in one array, or each by itself for a graph."""
    alike = not getattr(describe, "any_size", False)
    return stack(pixels, describe.device) if alike else pixels


def stack(pixels: Sequence[Pixels | Tensor], device: torch.device) -> Tensor:
    """(b, h, w, 3) bytes: on the GPU if some are there, else in memory that it can fetch."""
    import torch

    if any(isinstance(one, torch.Tensor) for one in pixels):
        there = [
            one if isinstance(one, torch.Tensor) else stack([one], device)[0] for one in pixels
        ]
        batch = torch.stack([one.to(device, non_blocking=True) for one in there])
        for one in there:
            if one.is_cuda:  # its memory must not be used again before it was copied
                one.record_stream(torch.cuda.current_stream(device))
        return batch
    shape = (len(pixels), *pixels[0].shape)
    batch = torch.empty(shape, dtype=torch.uint8, pin_memory=device.type == "cuda")
    # By numpy: torch would copy with every core, and they are busy decoding.
    np.stack(cast("Sequence[Pixels]", pixels), out=batch.numpy())
    return batch


def as_rows(vectors: Any) -> Floats:
    """What a describer returns, in main memory."""
    rows: Floats = vectors if isinstance(vectors, np.ndarray) else vectors.cpu().numpy()
    return rows


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
    alike: bool = True  # photos of a batch have one size
    _waiting: dict[tuple[int, ...], Batch[Key]] = field(default_factory=dict)
    _pixels: int = 0
    _photos: int = 0

    def add(self, key: Key, pixels: Any) -> Iterator[Batch[Key]]:
        """Take one photo; yield the batches that are full now."""
        size = tuple(pixels.shape) if self.alike else ()
        batch = self._waiting.setdefault(size, Batch([], []))
        batch.keys.append(key)
        batch.pixels.append(pixels)
        area = pixels.shape[0] * pixels.shape[1]
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
        return sum(one.shape[0] * one.shape[1] for one in self._waiting[size].pixels)

    def _take(self, size: tuple[int, ...]) -> Batch[Key]:
        self._pixels -= self._held(size)
        batch = self._waiting.pop(size)
        self._photos -= len(batch.keys)
        return batch


def decoders_for(device: Any) -> int:
    """A GPU needs all the decoding it can get; a CPU that runs the network hardly any."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 2) - 1) if device.type == "cuda" else 1


# Pixels a forward pass: ten photos of 1024 × 768, a few GB of feature maps in a large network.
_PIXELS = 8 * 2**20


class QueryEncoder:
    """Describes queries as the photos that they are compared with were described.

    `recorded` are the settings that an index keeps. What computes may be another runtime, which
    agrees. Several threads may use one encoder.
    """

    def __init__(
        self, net: RetrievalNet | Network, recorded: Mapping[str, Any] | None = None
    ) -> None:
        self.network = network_of(net)
        # All float runtimes agree with each other, and int8 with them as well as it can.
        how = {**for_more(recorded or {}), "backend": "auto"}
        self.settings = Settings.of(self.network, **how)
        self._run = describer(self.network, self.settings)
        self._alone = threading.Lock()  # a GPU's recorded graphs have one input each

    @property
    def net(self) -> RetrievalNet:
        """The network, loaded if it is not yet."""
        return self.network.net

    def __call__(self, photo: Source, box: Box | None = None) -> Floats:
        """The descriptor (dim,) of a photo or of a box in it; errors are those of `decode`."""
        [row] = self.describe([self.decode(photo, box)])
        return row

    def decode(self, photo: Source, box: Box | None = None) -> Pixels:
        """A photo as the network takes it, (h, w, 3); see `Settings.decode`."""
        return self.settings.decode(photo, box).pixels

    def describe(self, photos: Sequence[Pixels]) -> list[Floats]:
        """Descriptors (dim,) of decoded photos of one size, in few forward passes."""
        height, width = photos[0].shape[:2]
        step = max(1, _PIXELS // (height * width))
        rows: list[Floats] = []
        for start in range(0, len(photos), step):
            batch = as_input(photos[start : start + step], self._run)
            with self._alone:
                rows += list(as_rows(self._run(batch)))
        return rows
