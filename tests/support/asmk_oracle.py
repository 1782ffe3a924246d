"""ASMK* as its definition reads: one photo, one word, one number at a time."""

import numpy as np

from solar.asmk.kernel import Signatures


def signs(descriptors: np.ndarray, words: np.ndarray, assign: int = 1) -> dict[int, np.ndarray]:
    """The signs (±1) of the summed residuals of every word that descriptors fall on."""
    sums: dict[int, np.ndarray] = {}
    for x in descriptors:
        distances = ((words - x) ** 2).sum(axis=1)
        for c in np.argsort(distances, kind="stable")[:assign].tolist():
            sums[c] = sums.get(c, 0) + (x - words[c])
    return {c: np.where(total > 0, 1.0, -1.0) for c, total in sums.items()}


def similarity(
    x: dict[int, np.ndarray],
    y: dict[int, np.ndarray],
    *,
    alpha: float = 3.0,
    threshold: float = 0.0,
) -> float:
    """S(X, Y), normalised by the similarities of X and Y with themselves."""

    def unnormalised(x: dict[int, np.ndarray], y: dict[int, np.ndarray]) -> float:
        total = 0.0
        for c in x:
            if c in y:
                u = float(x[c] @ y[c]) / len(x[c])
                if u > threshold:
                    total += np.sign(u) * abs(u) ** alpha
        return total

    norms = unnormalised(x, x) * unnormalised(y, y)
    return unnormalised(x, y) / np.sqrt(norms) if norms else 0.0


def unpacked(signatures: Signatures, dim: int) -> dict[int, np.ndarray]:
    """Signatures as the oracle has them."""
    return {
        int(word): np.array(
            [1.0 if int(row[i // 64]) >> (i % 64) & 1 else -1.0 for i in range(dim)]
        )
        for word, row in zip(signatures.words, signatures.bits, strict=True)
    }
