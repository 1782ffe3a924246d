"""Selection of hard negatives: pure functions of descriptors, landmarks and a generator."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from solar.errors import SolarError


class Draw(NamedTuple):
    """An epoch's queries (q,), their positives (q,) and the pool for negatives (m,).

    All are int64 indices of photos, without repetition in queries and pool.
    """

    queries: Tensor
    positives: Tensor
    pool: Tensor

    def tuples(self, mined: Tensor) -> Tensor:
        """Photos of all tuples, (q, 2 + n): query, positive and the mined negatives (q, n)."""
        pairs = torch.stack((self.queries, self.positives), 1)
        return torch.cat((pairs, self.pool[mined.to(self.pool.device)]), 1)


def draw_epoch(
    queries: npt.NDArray[np.int64],
    positives: Sequence[npt.NDArray[np.int64]],
    photos: int,
    *,
    query_count: int,
    pool_size: int,
    generator: torch.Generator,
) -> Draw:
    """Draw an epoch's queries, a positive for each, and the pool of all `photos` for negatives.

    The pool may hold photos of the queries' own landmarks, which `mine` skips. Fewer queries or
    photos than asked for are all taken. As in the published code, queries and pool come from the
    generator, one after the other, and positives from Python's with the same seed. The generator
    must be on the CPU.
    """
    chosen = torch.randperm(len(queries), generator=generator)[:query_count].tolist()
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
    """Choose negatives for every query: one photo each of other landmarks.

    - `hardest` takes the most similar photos, as the paper does.
    - `semi-hard` takes the most similar photos that are farther than the query's positive.
    - `random` goes through a shuffled pool, from another start for each query.

    Equally good photos come in the order of the pool. If too few landmarks remain because photos
    are too near, the farthest of those follow. A SolarError if descriptors are not finite, or the
    pool holds too few other landmarks.

    Args:
        queries: (q, d) unit descriptors.
        query_landmarks: (q,) integers.
        pool: (m, d) unit descriptors of the photos to choose from.
        pool_landmarks: (m,) integers.
        negatives: Per query.
        style: `hardest`, `semi-hard` or `random`.
        positives: (q, d) unit descriptors of the queries' positives, for `semi-hard`.
        min_distance: Photos nearer than this Euclidean distance are too near in any style: likely
            the same place under another name.
        generator: For `random`; by default torch's own.
        chunk: Queries to compare with the pool at once: memory is a few chunk × m.

    Returns:
        (q, negatives) indices into the pool, int64, in order of preference.
    """
    landmarks = torch.unique(pool_landmarks)
    others = len(landmarks) - int(torch.isin(query_landmarks, landmarks).any())
    if others < negatives:
        raise SolarError(
            f"The pool holds {others} other landmarks, but {negatives} negatives are asked for:"
            " make the pool larger or ask for fewer negatives."
        )
    queries, pool = queries.float(), pool.float()
    shuffled = _shuffled(len(queries), len(pool), generator) if style == "random" else None
    chosen = []
    for first in range(0, len(queries), chunk):
        some = slice(first, first + chunk)
        with torch.autocast(pool.device.type, enabled=False):
            similarity = queries[some] @ pool.T
        if not similarity.isfinite().all():
            raise SolarError("The embeddings to mine from are not finite: training has diverged.")
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
    """Columns (q, count) of the largest values, each of another of the landmarks (m,).

    Wanted (q, m) is −∞ at columns to avoid; spare (q, m) ranks those for rows where nothing else is
    left. Both are overwritten.
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
    """A random preference (some, m) for all photos by some queries, whatever the chunks."""
    device = generator.device if generator else None
    places = torch.randperm(photos, generator=generator, device=device)
    starts = torch.randint(photos, (queries, 1), generator=generator, device=device)
    return lambda some: -((places - starts[some]) % photos)
