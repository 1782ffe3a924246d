"""Vectors in the memory of one device: their products with queries, and the exact scores of a few.

Rows lie in blocks, so that appending some moves no others. *Places* number the rows of a shard,
blocks one after the other, with the room that is left in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from solar.arrays import AnyFloats, Flags, RowNumbers, Vectors
from solar.errors import SolarError

GROUP = 64
"""Rows that are looked at together: only groups with a large maximum are looked at more closely."""

NOWHERE = 1 << 62
"""A place that does not exist, after all others."""

_SCORES = 1 << 28  # products held at once
_EXACT = 1 << 25  # numbers that are multiplied in double precision at once
_STAGED = 1 << 24  # numbers on their way to a GPU at once
_MULTIPLE = 8  # of queries, which matrix units take
_ROUNDED = 1.001  # lengths are computed in float32


class DeviceMemoryError(SolarError):
    """Vectors do not go into the memory of a device, or there is no such device."""


@dataclass(frozen=True)
class Block:
    """Room for rows; the first `count` are taken."""

    start: int  # its first place
    first: int  # its first row, of all vectors
    count: int
    halves: Tensor  # (capacity, dim) float16
    vectors: Tensor | None  # (capacity, dim) as they are; None if there is no room for them

    @property
    def capacity(self) -> int:
        """How many rows there is room for."""
        return len(self.halves)


class Shard:
    """The vectors on one device.

    Attributes:
        device: Where they are.
        longest: No row is longer, in float16.
        rounding: The difference between a row and its float16 is nowhere longer.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._on_gpu = device.type == "cuda"
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self._blocks: list[Block] = []
        self._mask: Tensor | None = None
        self._staged: Tensor | None = None
        self.longest = self.rounding = 0.0

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(block.count for block in self._blocks)

    @property
    def spare(self) -> int:
        """How many rows the last block can still take."""
        return self._blocks[-1].capacity - self._blocks[-1].count if self._blocks else 0

    @property
    def bytes(self) -> int:
        """What the blocks take."""
        held = (tensor for block in self._blocks for tensor in (block.halves, block.vectors))
        return sum({id(t): t.nbytes for t in held if t is not None}.values())

    @property
    def _places(self) -> int:
        return sum(block.capacity for block in self._blocks)

    # Filling

    def grow(
        self, rows: int, first: int, dim: int, dtype: np.dtype[np.floating[Any]], *, whole: bool
    ) -> None:
        """Make room for rows, of which the first will be row `first` of all vectors.

        Without `whole`, only for their float16.
        """
        shape = (-(-rows // GROUP) * GROUP, dim)
        halves = torch.zeros(shape, dtype=torch.float16, device=self.device)
        vectors: Tensor | None = None
        if whole:
            exact = dtype == np.float16
            vectors = halves if exact else torch.zeros(shape, device=self.device)
        self._blocks.append(Block(self._places, first, 0, halves, vectors))

    def fill(self, rows: AnyFloats) -> None:
        """Take rows into the last block, after those it has; a DeviceMemoryError if too long."""
        block = self._blocks[-1]
        step = max(_STAGED // rows.shape[1], 1)
        for at in range(0, len(rows), step):
            piece = self._moved(rows[at : at + step])
            place = slice(block.count + at, block.count + at + len(piece))
            block.halves[place] = piece
            if block.vectors is not None and block.vectors is not block.halves:
                block.vectors[place] = piece
            halves = block.halves[place].float()
            longest, rounding = (x.norm(dim=1).max() for x in (halves, piece - halves))
            self.longest = max(self.longest, _ROUNDED * float(longest))
            self.rounding = max(self.rounding, _ROUNDED * float(rounding))
        if not np.isfinite(self.longest + self.rounding):
            raise DeviceMemoryError("Vectors that are this long do not fit into float16.")
        self._blocks[-1] = replace(block, count=block.count + len(rows))

    def _moved(self, rows: AnyFloats) -> Tensor:
        """Rows on the device, in float32, by way of memory that it can read by itself."""
        if self._staged is None or len(self._staged) < len(rows):
            self._staged = torch.empty(rows.shape, pin_memory=self._on_gpu)
        staged = self._staged[: len(rows)]
        np.copyto(staged.numpy(), rows)
        return staged.to(self.device)

    def allow(self, present: Flags) -> None:
        """Say which rows of all vectors a masked search may find."""
        mask = np.zeros(self._places, np.bool_)
        for block in self._blocks:
            here = slice(block.start, block.start + block.count)
            mask[here] = present[block.first : block.first + block.count]
        self._mask = torch.from_numpy(mask).to(self.device)

    # Products

    def largest(self, halves: Tensor, count: int, *, masked: bool) -> tuple[Tensor, Tensor]:
        """The largest products with each query, (n, ≤ count), descending, and their places."""
        found = []
        for start, products in self._products(halves, masked):
            values, places = largest(products, count)
            found.append((values.float(), places + start))
        if len(found) == 1:
            return found[0]
        values, places = (torch.cat(part, dim=1) for part in zip(*found, strict=True))
        values, order = values.topk(min(count, values.shape[1]))
        return values, places.gather(1, order)

    def above(self, half: Tensor, floor: Tensor, *, masked: bool) -> Tensor:
        """The places (m,) of all products with one query (1, dim) that reach a floor."""
        lowest = floor.to(self.device)
        found = []
        for start, products in self._products(half, masked):
            reached = (products[0] >= lowest) & (products[0] > -torch.inf)
            found.append(reached.nonzero()[:, 0] + start)
        return torch.cat(found)

    def _products(self, halves: Tensor, masked: bool) -> Iterator[tuple[int, Tensor]]:
        """Products (n, places) of as many blocks as there is room for, and their first place.

        Those of rows that do not exist or may not be found are -inf.
        """
        # Some processors die of products in half precision.
        kind = torch.float16 if self._on_gpu else torch.float32
        queries = F.pad(halves.to(self.device, kind), (0, 0, 0, -len(halves) % _MULTIPLE))
        for blocks in self._stretches(len(queries)):
            start, width = blocks[0].start, sum(block.capacity for block in blocks)
            products = torch.empty((len(queries), width), dtype=kind, device=self.device)
            for block in blocks:
                first = block.start - start
                end = first + block.capacity
                torch.mm(queries, block.halves.to(kind).T, out=products[:, first:end])
                products[:, first + block.count : end] = -torch.inf
            if masked and self._mask is not None:
                products.masked_fill_(~self._mask[start : start + width], -torch.inf)
            yield start, products[: len(halves)]

    def _stretches(self, queries: int) -> Iterator[list[Block]]:
        some: list[Block] = []
        for block in self._blocks:
            if some and queries * (sum(b.capacity for b in some) + block.capacity) > _SCORES:
                yield some
                some = []
            some.append(block)
        yield some

    # Exact scores

    def rank(self, queries: Vectors, places: Tensor, k: int) -> tuple[RowNumbers, Vectors]:
        """Rows and exact scores (n, ≤ k) of the best of some places (n, m), equal ones by row.

        Where there are none, rows are -1 and scores -inf.
        """
        ascending = places.sort(dim=1).values  # so that a stable sort leaves equal ones by row
        scores = self._scores(torch.from_numpy(queries).to(self.device), ascending)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        return self.numbers(ascending.gather(1, order[:, :k])), scores[:, :k].cpu().numpy()

    def _scores(self, queries: Tensor, places: Tensor) -> Tensor:
        """Inner products (n, m), summed in double precision, as float32."""
        scores = torch.full(places.shape, -torch.inf, device=self.device).flatten()
        double = queries.double()
        flat, order = places.flatten().sort()
        asked = order // places.shape[1]
        ends = torch.tensor([b.start + b.capacity for b in self._blocks], device=self.device)
        last, step = 0, max(_EXACT // queries.shape[1], 1)
        for block, end in zip(self._blocks, torch.searchsorted(flat, ends).tolist(), strict=True):
            assert block.vectors is not None
            for at in range(last, end, step):
                some = slice(at, min(at + step, end))
                rows = block.vectors.index_select(0, flat[some] - block.start).double()
                rows *= double.index_select(0, asked[some])
                scores[order[some]] = rows.sum(dim=1).float()
            last = end
        return scores.view(places.shape)

    def numbers(self, places: Tensor) -> RowNumbers:
        """The rows of all vectors at some places; -1 where there is none."""
        starts = torch.tensor([block.start for block in self._blocks], device=self.device)
        shifts = torch.tensor([b.first - b.start for b in self._blocks], device=self.device)
        block = torch.searchsorted(starts, places.contiguous(), right=True) - 1
        rows: RowNumbers = torch.where(places < NOWHERE, places + shifts[block], -1).cpu().numpy()
        return rows


def largest(products: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest of each row of (n, m), (n, ≤ count), descending, and where they are.

    They lie in the groups with the largest maxima, of which no more than `count` are needed: so
    nearly all of the products are read once, and none is sorted.
    """
    n, width = products.shape
    if width <= count * GROUP:
        values, places = products.topk(min(count, width))
        return values, places
    groups = products.view(n, width // GROUP, GROUP)
    best = groups.amax(dim=2).topk(count, sorted=False).indices
    inside = groups.gather(1, best[:, :, None].expand(-1, -1, GROUP)).flatten(1)
    values, at = inside.topk(count)
    return values, best.gather(1, at // GROUP) * GROUP + at % GROUP


def free_memory(device: torch.device) -> int:
    """Bytes that a GPU can still hold; for a CPU no limit is known."""
    if device.type != "cuda":
        return NOWHERE
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def devices_called(name: str) -> list[torch.device]:
    """The devices that a name means: every GPU for `cuda`, one of them for `cuda:1`.

    A DeviceMemoryError if there is none.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceMemoryError(f"This machine has no device {name}.") from None
    found = [device]
    if device.type == "cuda":
        every = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
        found = every if device.index is None else every[device.index : device.index + 1]
    if not found:
        raise DeviceMemoryError(f"This machine has no device {name}.")
    return found
