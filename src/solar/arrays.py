"""Types of numpy arrays, by what they hold."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
AnyFloats: TypeAlias = npt.NDArray[np.floating[Any]]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Pixels: TypeAlias = npt.NDArray[np.uint8]

Vectors: TypeAlias = Floats
"""Embeddings of unit norm, (n, dim)."""

RowNumbers: TypeAlias = Ints
"""Numbers of rows; -1 where a search had no more to give."""
