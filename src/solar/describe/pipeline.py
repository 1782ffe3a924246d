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
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, cast

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

Batch: TypeAlias = tuple[list[int], list[Any]]
"""Photos of one size: their numbers, and their (h, w, 3) arrays or tensors."""

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
        self.names, self.numbers = names, numbers
        self._known: dict[int, tuple[tuple[int, int], FileFacts | None]] = {}
        self._rows: dict[int, Floats] = {}
        self._failures: dict[str, str] = {}

    def note(self, photos: Iterable[Decoded]) -> Iterator[tuple[int, Any]]:
        """Take sizes and facts of photos, or why there are none; the pixels of the others."""
        for number, image, facts in photos:
            if isinstance(image, str):
                self._failures[self.names[number]] = image
            else:
                self._known[number] = (image.width, image.height), facts
                yield number, image.pixels

    def take(self, numbers: Sequence[int], rows: Floats) -> int:
        """Take embeddings of some photos; how many are sound."""
        sound = np.logical_and.reduce(np.isfinite(rows), axis=1)
        for number, row, fine in zip(numbers, rows, sound, strict=True):
            if fine:
                self._rows[number] = row
            else:
                why = "The network makes numbers of it that are not finite."
                self._failures[self.names[number]] = why
        return int(sound.sum())

    @property
    def complete(self) -> bool:
        """Whether every photo has an embedding or a reason why not."""
        return len(self._rows) + len(self._failures) == len(self.numbers)

    def finished(self) -> Described:
        """The piece."""
        found = [number for number in self.numbers if number in self._rows]
        rows = [self._rows[number] for number in found]
        return Described(
            [self.names[number] for number in found],
            np.stack(rows) if rows else np.empty((0, 0), np.float32),
            [self._known[number][0] for number in found],
            [facts for number in found if (facts := self._known[number][1]) is not None],
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

        def batches() -> Iterator[Batch]:
            alike = not getattr(describe, "any_size", False)
            for numbers in pieces:
                draft = _Draft(self.photos.names, numbers)
                drafts.append(draft)
                photos = draft.note(islice(decoded, len(numbers)))
                most, pixels = self.throughput.batch, self.throughput.pixels
                yield from batched(photos, most, pixels, alike=alike)

        def finished() -> Described:
            found = drafts.popleft().finished()
            if found.failures:
                advance(len(found.failures))
            return found

        for keys, rows in _run(describe, batches()):
            while keys[0] not in drafts[0].numbers:  # no photo of that piece could be read
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


def _run(describe: Describer, batches: Iterator[Batch]) -> Iterator[tuple[list[int], Floats]]:
    """Describe batches; a GPU works on one while the next ones are put together."""
    on_gpu = describe.device.type == "cuda"
    ready = ((numbers, as_input(pixels, describe)) for numbers, pixels in batches)
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


def batched(
    photos: Iterable[tuple[int, Any]],
    most: int = BATCH,
    budget: int = BATCH_PIXELS,
    *,
    alike: bool = True,
) -> Iterator[Batch]:
    """Collect photos, (h, w, 3) arrays or tensors with their numbers, by size into batches.

    A batch has at most so many photos, and pixels unless a photo alone has more. Nothing is padded
    or resized, so a photo's descriptor does not depend on its neighbours; which photos share a
    batch depends only on the order in which they come. At most four times the budget and eight
    batches' number of photos wait at any moment; beyond that the size with the most pixels goes
    early. Photos that are not `alike` may differ in size.
    """
    waiting: dict[tuple[int, ...], Batch] = {}
    held = Counter[tuple[int, ...]]()  # pixels that wait, by size
    pixels = count = 0
    for number, photo in photos:
        size = tuple(photo.shape) if alike else ()
        numbers, images = waiting.setdefault(size, ([], []))
        numbers.append(number)
        images.append(photo)
        area = photo.shape[0] * photo.shape[1]
        held[size] += area
        pixels, count = pixels + area, count + 1
        full = len(numbers) >= most or (len(numbers) + 1) * area > budget
        while full or pixels > 4 * budget or count > 8 * most:
            first = size if full else max(held, key=held.__getitem__)
            pixels, full = pixels - held.pop(first), False
            batch = waiting.pop(first)
            count -= len(batch[0])
            yield batch
    yield from waiting.values()


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
