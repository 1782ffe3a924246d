"""How much faster the HPatches tasks are than a plain loop over queries, pairs and points.

    OMP_NUM_THREADS=1 python benchmarks/hpatches.py --json benchmarks/results/hpatches.json

Generated descriptors: 40 sequences of 600 points, 128 numbers, 20,000 distractors as published. The
loop does what a straightforward program does: a distance a pair, a sort a query, noise and pool.
Both run in the same process on the same queries, and must give the same numbers. Processor time
counts, all threads together.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from numpy.typing import NDArray

from solar.datasets.patches.hpatches import IMAGES, NOISES, Items, Pairs
from solar.evaluation.protocols.patch_tasks import (
    POOLS,
    Descriptors,
    match,
    retrieval,
    verification,
)

SEQUENCES, POINTS, DIM = 40, 600, 128
Floats = NDArray[np.float64]


def main() -> None:
    """Time the three tasks in both ways, check that they agree, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--json", type=Path, help="also write the results here")
    options = parser.parse_args()
    data = descriptors()
    results = {
        "matching": compare(lambda: fast_matching(data), lambda: loop_matching(data)),
        "verification": compare_verification(data, options.pairs),
        "retrieval": compare_retrieval(data, options.queries),
    }
    print(f"{'task':14}{'loop, s':>10}{'solar, s':>10}{'times':>8}")
    for task, row in results.items():
        print(f"{task:14}{row['loop_s']:10.2f}{row['solar_s']:10.3f}{row['times']:8.0f}")
    if options.json:
        sizes = {"queries": options.queries, "pairs": options.pairs}
        report = {"machine": machine(), **sizes, "tasks": results}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def descriptors() -> Descriptors:
    """Unit rows around a point's own direction, further from it the tougher the noise."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((SEQUENCES * POINTS, DIM), np.float32)
    strips = [base]
    for level in (1.2, 2.0, 2.8):
        strips += [
            base + level * rng.standard_normal(base.shape, np.float32) for _ in range(len(IMAGES))
        ]
    rows = np.stack(strips)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    names = tuple(f"v_{number}" for number in range(SEQUENCES))
    return Descriptors(names, np.arange(SEQUENCES + 1) * POINTS, rows)


def compare(fast: Callable[[], Any], loop: Callable[[], Any]) -> dict[str, float]:
    """Seconds of both, the best of three for the fast one; they must agree."""
    seconds, ours = min((timed(fast) for _ in range(3)), key=lambda pair: pair[0])
    slow, theirs = timed(loop)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    return {"loop_s": slow, "solar_s": seconds, "times": slow / seconds}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor, which others' work changes little, and the result."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def average_precision(distances: Floats, labels: NDArray[np.bool_], positives: int) -> float:
    """Trapezoid under precision over recall from (0, 1), from a stable sort."""
    hits = labels[np.argsort(distances, kind="stable")]
    found = np.concatenate([[0], np.cumsum(hits)])
    listed = np.arange(len(found))
    precision = np.concatenate([[1.0], found[1:] / listed[1:]])
    return float(np.trapezoid(precision, found / positives))


def fast_matching(data: Descriptors) -> list[float]:
    """One sequence, every strip."""
    return [match(data.rows[0, :POINTS], rows[:POINTS])[0] for rows in data.rows[1:]]


def loop_matching(data: Descriptors) -> list[float]:
    """The same, one point after the other."""
    found = []
    for strip in data.rows[1:]:
        nearest, distances = [], []
        for row in data.rows[0, :POINTS]:
            apart = np.linalg.norm(strip[:POINTS] - row, axis=1)
            nearest.append(apart.argmin())
            distances.append(apart.min())
        right = np.array(nearest) == np.arange(POINTS)
        found.append(average_precision(np.array(distances), right, POINTS))
    return found


def compare_verification(data: Descriptors, count: int) -> dict[str, float]:
    """Pairs drawn as the published generator does."""
    rng = np.random.default_rng(1)
    sequence = np.repeat(rng.integers(0, SEQUENCES, (count, 1)), 2, axis=1)
    row = rng.integers(0, POINTS, (count, 2))
    row[:, 1] += row[:, 0] == row[:, 1]
    row %= POINTS
    image = np.stack([rng.integers(0, 3, count), rng.integers(3, 6, count)], axis=1)
    pairs = {
        "positive": Pairs(data.names, sequence, image, row[:, [0, 0]]),
        "intra": Pairs(data.names, sequence, image, row),
    }

    def fast() -> Floats:
        return np.array([v["intra"] for v in verification(data, pairs).values()])

    def loop() -> Floats:
        found = []
        for noise in range(len(NOISES)):
            apart = {kind: loop_distances(data, p, noise) for kind, p in pairs.items()}
            labels = np.repeat([False, True], count)
            order = np.argsort(np.concatenate([apart["intra"], apart["positive"]]), kind="stable")
            true = np.cumsum(labels[order]) / count
            area = float(np.trapezoid(true, np.cumsum(~labels[order]) / count))
            few = count // 5
            distances = np.concatenate([apart["intra"], apart["positive"][:few]])
            found.append((area, average_precision(distances, labels[: count + few], few)))
        return np.array(found)

    return compare(fast, loop)


def loop_distances(data: Descriptors, pairs: Pairs, noise: int) -> Floats:
    """A distance at a time."""
    found = []
    for sequence, image, row in zip(pairs.sequence, pairs.image, pairs.row, strict=True):
        one, other = (
            data.rows[5 * noise + image[i] if image[i] else 0, data.starts[sequence[i]] + row[i]]
            for i in (0, 1)
        )
        found.append(np.linalg.norm(one - other))
    return np.array(found, np.float64)


def compare_retrieval(data: Descriptors, count: int) -> dict[str, float]:
    """Queries against the published number of distractors."""
    drawn = np.random.default_rng(2).permutation(SEQUENCES * POINTS)
    # As many queries a sequence as in the published lists need few sequences here.
    asking = drawn[drawn < POINTS * max(1, count // 250)][:count]
    others = np.setdiff1d(drawn, asking)
    others = np.random.default_rng(3).permutation(others)[: POOLS[-1]]
    queries, distractors = (
        Items(data.names, rows // POINTS, rows % POINTS) for rows in (asking, others)
    )

    def fast() -> list[float]:
        return [
            ap for pools in retrieval(data, queries, distractors).values() for ap in pools.values()
        ]

    def loop() -> list[float]:
        database = data.rows[0, others]
        sums = np.zeros((len(NOISES), len(POOLS)))
        for query in asking:
            row = data.rows[0, query]
            far = np.linalg.norm(database - row, axis=1)[others // POINTS != query // POINTS]
            for noise in range(len(NOISES)):
                near = np.linalg.norm(data.rows[1 + 5 * noise : 6 + 5 * noise, query] - row, axis=1)
                distances = np.concatenate([near, far])
                labels = np.arange(len(distances)) < len(IMAGES)
                for place, pool in enumerate(POOLS):
                    sums[noise, place] += average_precision(
                        distances[:pool], labels[:pool], len(IMAGES)
                    )
        return list((sums / len(asking)).ravel())

    return compare(fast, loop)


if __name__ == "__main__":
    main()
