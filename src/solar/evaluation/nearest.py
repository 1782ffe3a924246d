"""The nearest row of each query among millions, with its score: what a classifier would answer."""

from typing import Unpack

import numpy as np
import numpy.typing as npt

from solar.arrays import AnyFloats, Ints
from solar.describe.counting import counted
from solar.evaluation.ranks import FEW_ROWS, MEMORY, RankOptions, fast_product, rows_per_chunk
from solar.evaluation.row_blocks import NAMES, Database, RowBlocks, check_rows

_MOST_QUERIES = 1024  # scored at once


def nearest(
    queries: AnyFloats,
    database: Database,
    *,
    memory: int = MEMORY,
    **ranking: Unpack[RankOptions],
) -> tuple[npt.NDArray[np.float64], Ints]:
    """Find the row with the highest score, the first of equal ones, in one pass over the rows.

    Args:
        queries: (nq, dim), unit rows.
        database: (n, dim), unit rows: an array, possibly memory-mapped, or a store.
        memory: Bytes that chunks of rows and their scores may take.
        ranking: As for `solar.evaluation.ranks.ranks`.

    Returns:
        (nq,) scores and (nq,) numbers of rows; those of distractors follow the database's.

    Raises:
        SolarError: As for `solar.evaluation.ranks.ranks`.
    """
    names = ranking.get("names", NAMES)
    rows = RowBlocks(queries, database, ranking.get("distractors"), names)
    given = ranking.get("precision")
    dtype = np.dtype(given or ("float64" if rows.total <= FEW_ROWS else "float32"))
    queries = np.ascontiguousarray(queries, dtype)
    check_rows(names[0], queries)
    product = fast_product(queries, ranking.get("device"))
    scores = np.full(len(queries), -np.inf)
    found = np.zeros(len(queries), np.int64)
    chunk = rows_per_chunk(rows, min(len(queries), _MOST_QUERIES), dtype, memory)
    advance = counted(ranking.get("progress"), "Ranking", rows.total)
    for start, block in rows.read(chunk, dtype, rows.total):
        for first in range(0, len(queries), _MOST_QUERIES):
            some = slice(first, first + _MOST_QUERIES)
            here = product(block, some)
            best = here.argmax(axis=1)
            highest = here[np.arange(len(here)), best]
            better = highest > scores[some]
            scores[some] = np.where(better, highest, scores[some])
            found[some] = np.where(better, start + best, found[some])
        advance(len(block))
    return scores, found
