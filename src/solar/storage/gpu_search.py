"""The embedded engine with its vectors in the memory of GPUs, for many searches.

A search multiplies one block of rows after the other in float32 and keeps the k best rows of each
query and a margin; `storage.nearest` ranks them, so rows, scores and order are those of the CPU.
Where the margin does not suffice, because many photos are equal, it ranks all rows whose products
are near that of the k-th.

The first search loads the vectors; later ones load new rows. Where there is no room, the CPU
searches, with a warning.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from solar.arrays import Flags, RowNumbers, Vectors
from solar.storage import nearest
from solar.storage.catalogue import Metadata
from solar.storage.catalogue_view import Version, View
from solar.storage.conditions import Where
from solar.storage.folder_engine import FolderEngine, FolderVectors
from solar.storage.rows import Matrix

# Numbers and rows of a block. Its products with the queries of a turn take up to a gibibyte, and
# so does a copy of float16 rows in float32.
_BLOCK, _ROWS = 1 << 28, 1 << 20
_PIECE = 1 << 24  # numbers copied to a device at once
_QUERIES = 256
# Products near 1 may differ by this much when they are summed in another order.
_UNSURE = 1e-5
_RANKED = 1 << 14  # rows of one query
_RESERVE = 3 << 30  # bytes of a GPU that stay free for searching


class GpuVectors:
    """Vectors in the memory of devices, each block where most memory is free; thread-safe.

    Where there is no room, or no device, it warns once and gives up: the CPU searches.
    """

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self.devices = devices
        self._blocks: list[Tensor] = []  # (count, dim), each on one device
        self._stamp: tuple[Hashable, ...] = ()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    @property
    def bytes(self) -> int:
        """What the vectors take on all devices."""
        return sum(block.nbytes for block in self._blocks)

    def candidates(
        self,
        queries: Vectors,
        vectors: Matrix,
        k: int,
        stamp: Sequence[Hashable],
        present: Flags | None = None,
    ) -> RowNumbers | None:
        """Rows (n, m) with the k largest inner products with each query (n, dim); -1 is none.

        None if there is no room for the vectors (rows, dim), which are loaded if they are new: if
        their `stamp` or that of the loaded vectors is the beginning of the other, only missing rows
        are. `present` (rows,) says which may be found.
        """
        queries = np.ascontiguousarray(queries, np.float32)
        with self._lock:
            with suppress(torch.OutOfMemoryError):
                if self.devices and self._follow(vectors, tuple(stamp)):
                    found = [
                        self._best(queries[at : at + _QUERIES], vectors, k, present)
                        for at in range(0, len(queries), _QUERIES)
                    ]
                    return np.concatenate(found) if found else np.empty((0, 0), np.int64)
            self._give_up(vectors)
        return None

    def close(self) -> None:
        """Free the memory."""
        with self._lock:
            self._release()

    def _follow(self, vectors: Matrix, stamp: tuple[Hashable, ...]) -> bool:
        """Load rows that are missing; False where there is no room for them."""
        both = min(len(stamp), len(self._stamp))
        if not both or stamp[:both] != self._stamp[:both]:
            self._release()
        missing = len(vectors) - len(self)
        if missing <= 0:
            return True
        if missing * vectors.shape[1] * vectors.itemsize > self._free():
            return False
        while len(self) < len(vectors):
            self._load_block(vectors)
        self._stamp = stamp
        return True

    def _load_block(self, vectors: Matrix) -> None:
        """Fill up the last block, so that small additions make no small blocks, or add one."""
        dim = vectors.shape[1]
        most = min(max(_BLOCK // dim, 1), _ROWS)
        if self._blocks and len(self._blocks[-1]) < most:
            last = self._blocks.pop()
        else:
            device = max(self.devices, key=free_memory)
            dtype = torch.float16 if vectors.dtype == np.float16 else torch.float32
            last = torch.empty((0, dim), dtype=dtype, device=device)
        vectors = vectors[len(self) :][:most]
        block = last.new_empty(vectors.shape)
        block[: len(last)] = last
        step = max(_PIECE // dim, 1)
        for at in range(len(last), len(vectors), step):
            piece = vectors[at : at + step]
            block[at : at + len(piece)] = torch.from_numpy(np.array(piece))
        self._blocks.append(block)

    def _products(
        self, queries: Vectors, rows: int, present: Flags | None
    ) -> Iterator[tuple[int, Tensor]]:
        """First rows of blocks, and products (n, count) with them; -inf where not `present`."""
        asked, first = torch.from_numpy(queries), 0
        for block in self._blocks:
            end = min(first + len(block), rows)  # a reader may see an earlier state
            if end <= first:
                return
            products = asked.to(block.device) @ block[: end - first].float().T
            if present is not None:
                gone = torch.from_numpy(~present[first:end]).to(block.device)
                products.masked_fill_(gone, -torch.inf)
            yield first, products
            first += len(block)

    def _best(self, queries: Vectors, vectors: Matrix, k: int, present: Flags | None) -> RowNumbers:
        keep, found = k + nearest.MARGIN, []
        for first, products in self._products(queries, len(vectors), present):
            values, places = products.topk(min(keep, products.shape[1]))
            found.append((values, places + first))
        if not found:
            return np.empty((len(queries), 0), np.int64)
        values, places = (
            torch.cat([x.cpu() for x in part], 1) for part in zip(*found, strict=True)
        )
        values, order = values.topk(min(keep, values.shape[1]))
        rows: RowNumbers = places.gather(1, order).numpy()
        rows[values.numpy() == -np.inf] = -1
        if rows.shape[1] == keep:
            floor = values[:, k - 1] - _UNSURE * values[:, 0].abs().clamp(min=1)
            crowded = (values[:, -1] >= floor) & (values[:, -1] > -torch.inf)
            for number in crowded.nonzero()[:, 0].tolist():
                query = queries[number : number + 1]
                best = self._best_above(query, float(floor[number]), vectors, k, present)
                rows[number] = np.pad(best, (0, keep - k), constant_values=-1)
        return rows

    def _best_above(
        self, query: Vectors, floor: float, vectors: Matrix, k: int, present: Flags | None
    ) -> RowNumbers:
        """The k best rows of a query (1, dim) among all whose products reach a floor."""
        best = np.empty(0, np.int64)
        for first, products in self._products(query, len(vectors), present):
            rows = (products[0] >= floor).nonzero()[:, 0].cpu().numpy() + first
            for at in range(0, len(rows), _RANKED):
                some = np.append(best, rows[at : at + _RANKED])
                best = np.sort([row for row, _ in nearest.ranked(query[0], vectors, some, k)])
        return best

    def _release(self) -> None:
        self._blocks, self._stamp = [], ()

    def _free(self) -> int:
        return sum(max(free_memory(device) - _RESERVE, 0) for device in self.devices)

    def _give_up(self, vectors: Matrix) -> None:
        """Free the memory held, and say once how much there is."""
        self._release()
        if self.devices:
            need, free = vectors.nbytes / 1e9, self._free() / 1e9
            warn_of_fallback(
                f"The vectors take {need:.1f} GB of GPU memory, and {free:.1f} GB are free"
            )
        self.devices = []


def free_memory(device: torch.device) -> int:
    """Bytes that a device can still hold; a large number for a CPU."""
    if device.type != "cuda":
        return 1 << 62
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def devices_called(name: str) -> list[torch.device]:
    """Every GPU for `cuda`, one of them for `cuda:1`; none and a warning if there is none."""
    try:
        device = torch.device(name)
    except RuntimeError:
        found = []
    else:
        if device.type != "cuda":
            return [device]
        every = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
        found = every if device.index is None else every[device.index : device.index + 1]
    if not found:
        warn_of_fallback(f"This machine has no device {name}")
    return found


def warn_of_fallback(why: str) -> None:
    """Warn that a search takes place on the CPU."""
    warnings.warn(f"{why}: searching on the CPU.", stacklevel=3)


def open_index(
    address: str | os.PathLike[str], metadata: Metadata | None = None, *, device: str
) -> FolderEngine:
    """Open an index of vectors in a folder, to be searched on `devices_called(device)`."""
    folder = Path(address)
    metadata = metadata or Metadata(folder)
    return GpuEngine(GpuVectors(devices_called(device)), folder, *metadata.facts, metadata)


class GpuEngine(FolderEngine):
    """An index in a folder, searched exactly on devices."""

    def __init__(self, held: GpuVectors, *folder: Any) -> None:
        super().__init__(*folder)
        self._held = held

    def close(self) -> None:
        """Close files and free the memory of devices."""
        self._held.close()
        super().close()

    def _state_with_codes(self, view: View, version: Version) -> FolderVectors:
        load = self._state if self._held.devices else super()._state_with_codes
        return load(view, version)

    def _candidates(
        self, view: View, state: FolderVectors, queries: Vectors, k: int, where: Where
    ) -> RowNumbers:
        present = None
        if where and self._held.devices:
            present = np.zeros(len(state.vectors), np.bool_)
            present[view.matching(where)] = True
        elif len(state.removed):
            present = np.ones(len(state.vectors), np.bool_)
            present[state.removed] = False
        found = self._held.candidates(queries, state.vectors, k, state.segments, present)
        return super()._candidates(view, state, queries, k, where) if found is None else found
