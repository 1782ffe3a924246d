"""Hard-negative selection: pure functions of descriptors, landmarks and a generator."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from solar.errors import SolarError

STYLES = ("hardest", "semi-hard", "random")


class Draw(NamedTuple):
    """An epoch's queries (q,), a positive for each (q,) and the pool for negatives (m,).

    All are int64 indices of photos; no query and no photo of the pool comes twice.
    """

    queries: Tensor
    positives: Tensor
    pool: Tensor

    def tuples(self, mined: Tensor) -> Tensor:
        """Photos of all tuples, (q, 2 + n): query, positive, negatives (q, n) as mined."""
        pairs = torch.stack((self.queries, self.positives), 1)
        return torch.cat((pairs, self.pool[mined.to(self.pool.device)]), 1)


def draw_epoch(
    queries: npt.NDArray[np.int64],
    positives: Sequence[npt.NDArray[np.int64]],
    photos: int,
    *,
    query_count: int = 2000,
    pool_size: int = 20_000,
    generator: torch.Generator,
) -> Draw:
    """Draw an epoch's queries, one positive for each, and the pool for the negatives.

    The pool is drawn among all photos: it may hold photos of the queries' own landmarks, which
    `mine` passes over. Where fewer queries or photos exist than asked for, all are taken. `queries`
    are photos that may be one, each with its `positives`, at least one, else a SolarError; `photos`
    is how many there are. The seed of the generator decides everything, as in the published code:
    queries and pool come from the generator, one after the other, and positives from Python's. It
    must be on the CPU.
    """
    if not len(queries) or len(queries) != len(positives):
        raise SolarError(
            "Tuples need queries and a list of positives for each, but there are"
            f" {len(queries)} queries and {len(positives)} lists."
        )
    chosen = torch.randperm(len(queries), generator=generator)[:query_count].tolist()
    if lonely := [int(queries[i]) for i in chosen if not len(positives[i])]:
        raise SolarError(f"Photo {lonely[0]} cannot be a query: it has no positive.")
    pool = torch.randperm(photos, generator=generator)[:pool_size]
    dice = Random(generator.initial_seed())
    pairs = [
        (int(queries[i]), int(positives[i][dice.randrange(len(positives[i]))])) for i in chosen
    ]
    both = torch.tensor(pairs, dtype=torch.int64)
    return Draw(both[:, 0], both[:, 1], pool)


@torch.no_grad()
def mine(
    queries: Tensor,
    query_landmarks: Tensor,
    pool: Tensor,
    pool_landmarks: Tensor,
    *,
    negatives: int = 5,
    style: str = "hardest",
    positives: Tensor | None = None,
    min_distance: float = 0.0,
    generator: torch.Generator | None = None,
    chunk: int = 256,
) -> Tensor:
    """Choose negatives for every query: never its own landmark, at most one of each other.

    Each query walks down an order of the pool and takes what it may until it has enough; photos
    that are equally good come in the order of the pool.

    - `hardest` walks from the most similar photo down, as the paper does.
    - `semi-hard` does so from the query's positive on: photos as near as the positive or nearer
      are too near. What remains within the loss's margin thus comes before what is beyond it.
    - `random` walks through one shuffled pool, every query from another place of it.

    Where a query finds too few landmarks because the others are too near, it takes of those the
    farthest photos first. A SolarError if the shapes do not fit, the descriptors are no numbers, an
    option makes no sense, or the pool holds too few other landmarks.

    Args:
        queries: (q, d) unit descriptors of the queries.
        query_landmarks: (q,) their landmarks, as integers.
        pool: (m, d) unit descriptors of the photos to choose from.
        pool_landmarks: (m,) their landmarks.
        negatives: How many to choose for each query.
        style: `hardest`, `semi-hard` or `random`.
        positives: (q, d) unit descriptors of the queries' positives, which `semi-hard` needs.
        min_distance: Photos nearer than this Euclidean distance are too near in any style: likely
            the same place under another name.
        generator: Shuffles for `random`; by default torch's own.
        chunk: How many queries to compare with the pool at once: memory is a few chunk × m.

    Returns:
        (q, negatives) indices into the pool, int64, in the order they were taken.
    """
    _check_shapes(queries, query_landmarks, pool, pool_landmarks, positives)
    _check_options(style, positives, min_distance, negatives, chunk)
    _check_landmarks(query_landmarks, pool_landmarks, negatives)
    queries, pool = queries.float(), pool.float()
    shuffled = _shuffled(len(queries), len(pool), generator) if style == "random" else None
    chosen = []
    for first in range(0, len(queries), chunk):
        some = slice(first, first + chunk)
        with torch.autocast(pool.device.type, enabled=False):
            similarity = queries[some] @ pool.T
        if not similarity.isfinite().all():
            raise SolarError("The descriptors to mine from are not finite: training has diverged.")
        other = query_landmarks[some, None] != pool_landmarks
        near = similarity > 1 - min_distance**2 / 2 if min_distance else torch.zeros_like(other)
        if style == "semi-hard" and positives is not None:
            near |= similarity >= (queries[some] * positives[some]).sum(1, keepdim=True)
        order = similarity if shuffled is None else shuffled(some).to(similarity)
        wanted = order.masked_fill(near | ~other, -torch.inf)
        spare = (-similarity).masked_fill(~near | ~other, -torch.inf)
        chosen.append(_walk(wanted, spare, pool_landmarks, negatives))
    return torch.cat(chosen)


def _walk(wanted: Tensor, spare: Tensor, landmarks: Tensor, count: int) -> Tensor:
    """Take `count` columns of each row, the largest first, no two of one of the landmarks (m,).

    Wanted (q, m) is −∞ where a column is not; spare (q, m) is for rows where nothing wanted is
    left. Both are overwritten. The caller has made sure that there are enough.
    """
    taken = []
    for _ in range(count):
        # Of equal values `max` takes the first.
        best, column = wanted.max(1)
        column = torch.where(best > -torch.inf, column, spare.max(1).indices)
        taken.append(column)
        same = landmarks[column, None] == landmarks
        wanted.masked_fill_(same, -torch.inf)
        spare.masked_fill_(same, -torch.inf)
    return torch.stack(taken, 1)


def _shuffled(
    queries: int, photos: int, generator: torch.Generator | None
) -> Callable[[slice], Tensor]:
    """Shuffle the pool once and draw where each query starts, so that chunks change nothing.

    Gives for some queries the order of all photos (some, m), the first to take with the largest.
    """
    device = generator.device if generator else None
    places = torch.randperm(photos, generator=generator, device=device)
    starts = torch.randint(photos, (queries, 1), generator=generator, device=device)
    return lambda some: -((places - starts[some]) % photos)


def _check_shapes(
    queries: Tensor,
    query_landmarks: Tensor,
    pool: Tensor,
    pool_landmarks: Tensor,
    positives: Tensor | None,
) -> None:
    fits = (
        queries.ndim == pool.ndim == 2
        and queries.shape[1] == pool.shape[1]
        and query_landmarks.shape == queries.shape[:1]
        and pool_landmarks.shape == pool.shape[:1]
        and (positives is None or positives.shape == queries.shape)
    )
    if not fits or not len(queries):
        given = (queries, query_landmarks, pool, pool_landmarks)
        shapes = ", ".join(str(tuple(x.shape)) for x in given)
        raise SolarError(
            "Mining needs queries (q, d), their landmarks (q,), a pool (m, d), its landmarks (m,)"
            f" and, if any, positives like the queries, but got {shapes}"
            + ("." if positives is None else f" and {tuple(positives.shape)}.")
        )


def _check_options(
    style: str, positives: Tensor | None, min_distance: float, negatives: int, chunk: int
) -> None:
    if style not in STYLES:
        raise SolarError(f"There is no mining style {style!r}: choose {' or '.join(STYLES)}.")
    if style == "semi-hard" and positives is None:
        raise SolarError("Semi-hard mining needs the descriptors of the positives.")
    if not 0 <= min_distance < 2:
        raise SolarError(f"min_distance must be from 0 to less than 2, not {min_distance}.")
    if negatives < 1 or chunk < 1:
        raise SolarError(
            f"Mining needs at least one negative and one query at a time, not {negatives} and"
            f" {chunk}."
        )


def _check_landmarks(query_landmarks: Tensor, pool_landmarks: Tensor, negatives: int) -> None:
    there = torch.unique(pool_landmarks)
    others = len(there) - int(torch.isin(query_landmarks, there).any())
    if others < negatives:
        raise SolarError(
            f"The pool holds {others} other landmarks, but {negatives} negatives are asked for:"
            " make the pool larger or ask for fewer negatives."
        )
