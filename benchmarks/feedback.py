"""What relevance feedback gains: mAP before, and after one and two rounds of ticks and crosses.

    python benchmarks/feedback.py --data DIR --model solar-r18 --photos landmarks
    python benchmarks/feedback.py --data DIR --model solar-r18 --photos train --choose

DIR (or SOLAR_DATA) holds landmarks/val-0.tar, buildings/val-0.tar, landmarks/train-*.tar and
landmarks/distractors-0.tar. Every photo of a place is a query against all others and the
distractors. In a round the simulated user looks at the 10 best photos that nobody has judged yet,
ticks those of the query's place and crosses the others; then the search is repeated with all ticks
and crosses so far (`solar.ranking.feedback.updated`).

Judged photos can only come out right, so there are three figures after each round:

- residual: judged photos are left out, of the ranking before (the plain one) and after alike.
  Queries without another photo of their place are left out, too.
- all: the list as a user sees it: ticked photos first, crossed ones last.
- moved: the same list, but with the plain ranking in between: what the marks alone are worth.

And one more: the residual of users who tick one photo at most and cross one at most.

`--choose` tries weights on a set. Not everybody ticks and crosses ten photos: the residual mAP, the
mean of both rounds, is that of users who mark more and less (`USERS`).
"""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import descriptors
from numpy.typing import NDArray

from solar.arrays import RowNumbers, Vectors
from solar.errors import SolarError
from solar.evaluation.metrics import average_precision
from solar.images.sources import Photos, find_photos
from solar.ranking import feedback

SHOWN = 10
ROUNDS = 2
EVERY = 4  # of the photos to train on, which are many
SHARDS = {
    "landmarks": ["landmarks/val-0.tar"],
    "buildings": ["buildings/val-0.tar"],
    "train": [f"landmarks/train-{number}.tar" for number in range(3)],
}
LIKE, UNLIKE = (0.5, 2 / 3, 0.8, 0.9), (0, 0.125, 0.25, 0.375, 0.5)

Mark = Callable[[RowNumbers, RowNumbers], tuple[RowNumbers, RowNumbers]]
USERS: dict[str, Mark] = {
    "all": lambda right, wrong: (right, wrong),
    "one of each": lambda right, wrong: (right[:1], wrong[:1]),
    "crosses": lambda right, wrong: (right[:0], wrong),
    "one cross": lambda right, wrong: (right[:0], wrong[:1]),
}
"""Which of the right and the wrong photos that they have seen users mark."""


def main() -> None:
    """Describe the photos or load their descriptors, judge, search again, print a table."""
    parser = photo_options(__doc__)
    parser.add_argument("--photos", choices=list(SHARDS), default="landmarks")
    parser.add_argument("--model", default="solar-lite0", help="a model's file or name")
    parser.add_argument("--choose", action="store_true", help="try weights")
    parser.add_argument("--cache", type=Path, help="keep descriptors in this .npy")
    options = parsed(parser)
    try:
        photos = find_photos([options.data / shard for shard in SHARDS[options.photos]])
        if options.photos == "train":
            photos = photos.select(range(0, len(photos), EVERY))
        others = find_photos(options.data / "landmarks/distractors-0.tar")
        both = Photos((*photos.names, *others.names), (*photos.places, *others.places))
        vectors = descriptors(both, options.model, options.cache)
    except SolarError as error:
        parser.error(str(error))
    labels = np.array([name.split("/")[1] for name in photos.names] + [""] * len(others))
    report = {"machine": machine(), "model": options.model, "set": options.photos}
    report |= {"photos": len(both), "queries": len(photos), "shown": SHOWN}
    if options.choose:
        report["weights"] = choose(vectors, labels)
    else:
        report["rounds"] = rounds(vectors, labels, (feedback.LIKE, feedback.UNLIKE))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def choose(vectors: Vectors, labels: NDArray[np.str_]) -> list[dict[str, float]]:
    """Try weights; the best first."""
    found = []
    names = [f"residual {number}" for number in range(1, ROUNDS + 1)]
    for like, unlike in itertools.product(LIKE, UNLIKE):
        row = {"like": like, "unlike": unlike}
        for user, mark in USERS.items():
            after = simulated(vectors, labels, (like, unlike), mark)
            row[user] = 100 * float(np.mean([np.nanmean(after[name]) for name in names]))
        row["mean"] = sum(row[user] for user in USERS) / len(USERS)
        print("  ".join(f"{name} {value:.3f}" for name, value in row.items()), flush=True)
        found.append(row)
    return sorted(found, key=lambda one: -one["mean"])


def rounds(
    vectors: Vectors, labels: NDArray[np.str_], weights: tuple[float, float]
) -> dict[str, dict[str, float]]:
    """The figures of every round; prints them."""
    found = simulated(vectors, labels, weights)
    few = simulated(vectors, labels, weights, USERS["one of each"])
    found["residual 1, one of each"] = few["residual 1"]
    table = {
        name: {"mAP": 100 * float(np.nanmean(values)), "queries": int(np.isfinite(values).sum())}
        for name, values in found.items()
    }
    for name, row in table.items():
        print(f"{name:<24} {row['mAP']:6.1f}  {row['queries']} queries")
    return table


def simulated(
    vectors: Vectors,
    labels: NDArray[np.str_],
    weights: tuple[float, float],
    mark: Mark = USERS["all"],
) -> dict[str, NDArray[np.float64]]:
    """Average precision of every query (q,), by what it is of; NaN where nothing is left."""
    found: dict[str, list[float]] = {}

    def note(name: str, ranking: RowNumbers, right: NDArray[np.bool_]) -> None:
        ranks = np.flatnonzero(right[ranking])
        found.setdefault(name, []).append(average_precision(ranks) if len(ranks) else np.nan)

    for query in np.flatnonzero(labels != ""):
        right = labels == labels[query]
        right[query] = False
        plain = ranked(vectors, vectors[query], [query])
        note("plain", plain, right)
        judged, now = np.zeros(0, np.int64), plain
        for number in range(1, ROUNDS + 1):
            judged = np.concatenate([judged, now[:SHOWN]])
            ticked, crossed = judged[right[judged]], judged[~right[judged]]
            liked, unliked = mark(ticked, crossed)
            changed = feedback.updated(vectors[query], vectors[liked], vectors[unliked], *weights)
            now = ranked(vectors, changed, [query, *judged])
            before = plain[~np.isin(plain, judged)]
            note(f"residual before {number}", before, right)
            note(f"residual {number}", now, right)
            note(f"moved {number}", np.concatenate([ticked, before, crossed]), right)
            note(f"all {number}", np.concatenate([ticked, now, crossed]), right)
    return {name: np.array(values) for name, values in found.items()}


def ranked(vectors: Vectors, query: Vectors, left_out: Any) -> RowNumbers:
    """All rows but some, best first."""
    scores = vectors @ query
    scores[left_out] = -np.inf
    return np.argsort(-scores, kind="stable")[: len(vectors) - len(left_out)]


if __name__ == "__main__":
    main()
