"""WEB: binary codes from an ensemble of whitenings, compared by their Hamming distance.

Vectors are whitened several times, each time by what photos of the same thing differ in (learned
whitening), learnt from another share of the pairs: all of them, and the first 90, 80 and 50 percent
of the number of photos. Whitened numbers become bits: 1 where a number is below the median of its
vector. The bits of all whitenings together are the code, four for each number of the vector.

As published, pairs are sorted by the exponents that DAME pooling chose for their photos
(`learn_ensemble`). An index has no labels and need not come from that network: it takes every photo
of a sample with its nearest neighbour, the most similar pairs first (`learn_codes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.files import replacing

FRACTIONS = (1.0, 0.9, 0.8, 0.5)
"""Of the number of photos: so many pairs each whitening is learnt from. The first two are "2x"."""

ROWS_A_NUMBER = 4
"""Fewer photos than this for each number of a vector are too few to learn whitenings from."""


@dataclass(frozen=True, eq=False)
class WhiteningEnsemble:
    """Several whitenings of the same vectors."""

    mean: Vectors  # (d,)
    matrices: NDArray[np.float32]  # (m, d, d)

    def bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        """The code of each vector (n, d): (n, m · d)."""
        centred = np.asarray(vectors, np.float32) - self.mean
        whitened = [centred @ matrix.T for matrix in self.matrices]
        return np.concatenate([y < np.median(y, axis=1, keepdims=True) for y in whitened], axis=1)

    def packed(self, vectors: Vectors) -> NDArray[np.uint8]:
        """The same in bytes, the last one filled up with zeros."""
        return np.packbits(self.bits(vectors), axis=1)


def learn_ensemble(
    vectors: Vectors,
    queries: NDArray[np.integer],
    positives: NDArray[np.integer],
    order: NDArray[Any],
    fractions: Sequence[float] = FRACTIONS,
) -> WhiteningEnsemble:
    """Learn whitenings from pairs of photos that show the same.

    Args:
        vectors: (n, d).
        queries: (m,) rows, one for each pair.
        positives: (m,) rows, the other photo of each pair.
        order: (m,) what pairs are sorted by, ascending; as published, the sum of both photos' mean
            exponents over the scales.
        fractions: Of n, so many of the first pairs; 1 takes all pairs.
    """
    import torch

    from solar.nn import learned_whitening

    first = np.argsort(order, kind="stable")
    x = torch.from_numpy(np.asarray(vectors, np.float64))
    a, b = (torch.from_numpy(np.asarray(rows, np.int64)[first]) for rows in (queries, positives))
    found = [
        learned_whitening(x, a, b, None if share == 1 else int(share * len(x)))
        for share in fractions
    ]
    matrices = np.stack([one.matrix.numpy() for one in found]).astype(np.float32)
    return WhiteningEnsemble(found[0].mean.numpy().astype(np.float32), matrices)


class WebCodes:
    """Codes of many vectors; it is used as the Faiss indices of `solar.search.codes` are."""

    wider = 8
    """How many times the usual candidates to rank exactly: whitening changes the order."""

    def __init__(self, ensemble: WhiteningEnsemble) -> None:
        self.ensemble = ensemble
        _, dim, _ = ensemble.matrices.shape
        bits = len(ensemble.matrices) * dim
        self._codes = import_module("faiss").IndexBinaryFlat(8 * -(-bits // 8))

    @property
    def ntotal(self) -> int:
        """How many vectors have codes."""
        return int(self._codes.ntotal)

    def reset(self) -> None:
        """Forget all codes, but not the whitenings."""
        self._codes.reset()

    def add(self, vectors: Vectors) -> None:
        """Encode vectors (n, d)."""
        self._codes.add(self.ensemble.packed(vectors))

    def search(self, queries: Vectors, count: int) -> tuple[Vectors, NDArray[np.int64]]:
        """The nearest codes of each query (n, d): scores, minus the bits that differ, and rows."""
        distances, rows = self._codes.search(self.ensemble.packed(queries), count)
        return -distances.astype(np.float32), rows

    def write(self, path: Path) -> None:
        """Write whitenings and codes to a .safetensors file, whatever its name."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        codes = import_module("faiss").vector_to_array(self._codes.xb)
        arrays = {
            "mean": self.ensemble.mean,
            "matrices": self.ensemble.matrices,
            "codes": codes.reshape(self.ntotal, -1),
        }
        with replacing(path) as temporary:
            try:
                save_file(arrays, temporary, {"codes": "web"})
            except SafetensorError as error:
                raise SolarError(f"{path} cannot be written: is the disk full?") from error

    @classmethod
    def read(cls, path: Path) -> WebCodes:
        """Read what `write` wrote, checked before: a RuntimeError if it is something else."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            arrays = load_file(path)
            codes = cls(WhiteningEnsemble(arrays["mean"], arrays["matrices"]))
            codes._codes.add(arrays["codes"])
        except (SafetensorError, KeyError, ValueError, AssertionError) as error:
            raise RuntimeError("other arrays") from error
        return codes


def is_web(path: Path) -> bool:
    """Whether a file of codes is one of `WebCodes` and not of Faiss.

    A .safetensors file begins with the length of its header, in 8 bytes; where the upper half of
    these would be, Faiss has the number of dimensions.
    """
    with path.open("rb") as file:
        return file.read(9)[4:] == b"\0\0\0\0{"


def learn_codes(vectors: Vectors) -> WebCodes:
    """Empty codes for vectors like these (n, d), which are paired with their nearest neighbours."""
    faiss = import_module("faiss")
    rows = np.ascontiguousarray(vectors, np.float32)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    scores, found = index.search(rows, 2)
    numbers = np.arange(len(rows))
    other = (found[:, 0] == numbers).astype(np.int64)  # of equal vectors, itself may come second
    positives, similar = found[numbers, other], scores[numbers, other]
    return WebCodes(learn_ensemble(rows, numbers, positives, -similar))
