"""ASMK*: photos compared by all their local descriptors, aggregated per visual word and binarised.

Tolias, Avrithis and Jégou, "To aggregate or not to aggregate" (ICCV 2013). A codebook of visual
words c is made once by k-means. For every word that descriptors x of a photo fall on, their
residuals are summed, and only the signs are kept:

    b(c) = sign(Σ x − c),  d bits

The similarity of two photos is a sum over the words that they share:

    S(X, Y) = Σ over shared words c of s(⟨b_X(c), b_Y(c)⟩ / d) / √(S(X, X) S(Y, Y))

where the selectivity s(u) = uᵅ above a threshold, and 0 below, lets only good agreement count, and
S(X, X) is the number of words of X before the division. Descriptors of a query fall on several of
the nearest words. `Postings` is the inverted file: for every word the photos that have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Flags, Floats, Ints, Pixels
from solar.asmk.codebook import Codebook, Residuals, sum_residuals
from solar.errors import SolarError

Words: TypeAlias = NDArray[np.int32]
Bits: TypeAlias = NDArray[np.uint64]

# Postings that are compared at once: 40 MB of working memory.
_AT_ONCE = 1 << 20
# A shorter sum of residuals has no direction: its word is left out.
_LEAST_NORM = 1e-6

ASSIGN = 5
"""On how many words each descriptor of a query falls, as published."""


def selectivity(dim: int, alpha: float = 3.0, threshold: float = 0.0) -> Floats:
    """The selectivity of two signatures that differ in 0, 1, … dim bits, (dim + 1,), as published.

    `alpha` is its exponent; signatures that agree less than the `threshold`, −1 to 1, do not count.
    """
    agreement = (dim - 2 * np.arange(dim + 1)) / dim
    selected = np.sign(agreement) * np.abs(agreement) ** alpha
    return np.where(agreement > threshold, selected, 0).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Signatures:
    """A photo for ASMK*: its visual words and a signature for each."""

    words: Words  # (n,), ascending
    bits: Bits  # (n, b): d signs, 64 in a number, the first in its lowest bit

    def __len__(self) -> int:
        return len(self.words)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.words.nbytes + self.bits.nbytes


def aggregate(descriptors: Floats, codebook: Codebook, assign: int = 1) -> Signatures:
    """The signs of `sum_residuals` of one photo."""
    [residuals] = sum_residuals([descriptors], codebook, assign)
    return binarise(residuals)


def binarise(residuals: Residuals) -> Signatures:
    """Keep the signs of sums of residuals, and leave out words whose sums are 0."""
    kept = np.linalg.norm(residuals.sums, axis=1) > _LEAST_NORM
    sums = residuals.sums[kept]
    packed = np.zeros((len(sums), 8 * -(-sums.shape[1] // 64)), np.uint8)
    packed[:, : -(-sums.shape[1] // 8)] = np.packbits(sums > 0, axis=1, bitorder="little")
    return Signatures(residuals.words[kept], packed.view("<u8").astype(np.uint64, copy=False))


@dataclass(frozen=True, eq=False)
class Postings:
    """An inverted file of some photos, numbered from 0."""

    words: Words  # (m,), those that occur, ascending
    starts: Ints  # (m + 1,), where the photos of each begin
    photos: NDArray[np.int32]  # (p,), ascending within a word
    bits: Bits  # (p, b), their signatures
    counts: NDArray[np.int32]  # (n,), how many words each photo has

    @classmethod
    def gather(cls, signatures: Sequence[Signatures], blocks: int) -> Postings:
        """Make an inverted file of photos whose signatures take `blocks` numbers."""
        counts = np.array([len(one) for one in signatures], np.int32)
        words = np.concatenate([np.empty(0, np.int32), *(one.words for one in signatures)])
        bits = np.concatenate([np.empty((0, blocks), np.uint64), *(s.bits for s in signatures)])
        photos = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        return cls._sorted(words, photos, bits, counts)

    @classmethod
    def merged(cls, parts: Sequence[tuple[Postings, Flags]]) -> Postings:
        """Join inverted files, of each only the photos that are kept."""
        words, photos, bits, counts = [], [], [], []
        first = 0
        for part, kept in parts:
            stays = kept[part.photos]
            words.append(np.repeat(part.words, np.diff(part.starts))[stays])
            photos.append((first + np.cumsum(kept) - 1).astype(np.int32)[part.photos[stays]])
            bits.append(part.bits[stays])
            counts.append(part.counts[kept])
            first += int(kept.sum())
        return cls._sorted(*(np.concatenate(lists) for lists in (words, photos, bits, counts)))

    @classmethod
    def _sorted(cls, words: Any, photos: Any, bits: Any, counts: Any) -> Postings:
        order = np.argsort(words, kind="stable")
        occurring, starts = np.unique(words[order], return_index=True)
        ends = np.append(starts, len(words)).astype(np.int64)
        return cls(occurring, ends, photos[order], bits[order], counts)

    def norms(self) -> Floats:
        """What photos' scores are divided by, (n,)."""
        return np.sqrt(self.counts).astype(np.float32)

    def scores(self, query: Signatures, table: Floats) -> Floats:
        """Sums over shared words, (n,), not divided by norms; `table` is that of `selectivity`."""
        found, asked, places = np.intersect1d(
            query.words, self.words, assume_unique=True, return_indices=True
        )
        total = np.zeros(len(self.counts))
        starts, lengths = self.starts[places], self.starts[places + 1] - self.starts[places]
        ends = np.cumsum(lengths)
        cuts = np.searchsorted(ends, np.arange(_AT_ONCE, ends[-1] if len(ends) else 0, _AT_ONCE))
        for part in np.split(np.arange(len(found)), np.unique(cuts)):
            if not len(part):
                continue
            of = np.repeat(part, lengths[part])
            before = np.cumsum(lengths[part]) - lengths[part]
            at = np.arange(len(of)) + np.repeat(starts[part] - before, lengths[part])
            apart = _ones(self.bits[at] ^ query.bits[asked[of]])
            total += np.bincount(self.photos[at], table[apart], len(total))
        return total.astype(np.float32)

    def write(self, file: BinaryIO) -> None:
        """Write the arrays one after the other, in .npy format."""
        for array in (self.bits, self.starts, self.words, self.photos, self.counts):
            np.lib.format.write_array(
                file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False
            )

    @classmethod
    def mapped(cls, path: Path) -> Postings:
        """Memory-map what `write` wrote; FileNotFoundError if it is gone."""
        try:
            with path.open("rb") as file:
                bits, starts, words, photos, counts = (_next_array(file) for _ in range(5))
        except ValueError as error:
            raise SolarError(f"{path} is damaged: restore it or build the index again.") from error
        return cls(words, starts, photos, bits, counts)


def _next_array(file: BinaryIO) -> Any:
    """The next array of a file, memory-mapped."""
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("another version")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    start, size = file.tell(), int(np.prod(shape)) * dtype.itemsize
    if file.seek(0, 2) < start + size:
        raise ValueError("cut short")
    # An empty array cannot be mapped.
    array = np.memmap(file, dtype, "r", start, shape) if size else np.empty(shape, dtype)
    file.seek(start + size)
    return array


def _ones(bits: Bits) -> Ints:
    """How many bits are set in each row."""
    if hasattr(np, "bitwise_count"):
        counts: Pixels = np.bitwise_count(bits)
    else:  # before NumPy 2
        counts = np.unpackbits(bits.view(np.uint8), axis=1)
    total = np.zeros(len(bits), np.int64)
    for column in counts.T:  # sums of two numbers each are slow otherwise
        total += column
    return total
