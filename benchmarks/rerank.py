"""What every way of ranking again gains and costs, on photos of places and distractors.

    python benchmarks/rerank.py --data DIR --model solar-r101 --cache descriptors.npy
    python benchmarks/rerank.py --data DIR --teacher DIR/teacher/mobilenetv2_imagenet.ts

DIR (or SOLAR_DATA) holds landmarks/val-0.tar (about 125 photos a place) or buildings/val-0.tar
(about 10), and landmarks/distractors-0.tar. Every photo of a place is a query against all others;
mAP over all queries. A query is never in the collection: neither in lists of neighbours, nor in
augmented vectors, nor in graphs.

Milliseconds are those of a query from its descriptor to its ranking, all photos compared each time:
the median of 100 queries, the best of three times for each, methods taking turns. What a method
prepares once for the collection is timed apart. Set OMP_NUM_THREADS=1 to time one thread.
"""

import json
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import descriptors, labels_of, shards
from numpy.typing import NDArray

from solar.arrays import Floats, RowNumbers, Vectors
from solar.errors import SolarError
from solar.evaluation.metrics import average_precision
from solar.images.sources import find_photos
from solar.ranking.diffuse import TRUNCATE, diffused, mutual_graph
from solar.ranking.expand import NEIGHBOURS, Method, augment, expand_query
from solar.ranking.neighbours import exact_neighbours
from solar.ranking.superglobal import TOP, superglobal


def main() -> None:
    """Describe the photos or load their descriptors, rank in every way, print a table."""
    parser = photo_options(__doc__)
    parser.add_argument("--photos", choices=("landmarks", "buildings"), default="landmarks")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", help="a model's file or name")
    which.add_argument("--teacher", type=Path, help="TorchScript from photos to a feature map")
    parser.add_argument(
        "--centre", action="store_true", help="subtract the distractors' mean, as whitening would"
    )
    parser.add_argument("--cache", type=Path, help="keep descriptors in this .npy")
    options = parsed(parser)
    try:
        photos = find_photos([options.data / shard for shard in shards(options.photos)])
        vectors = descriptors(photos, options.model, options.teacher, options.cache)
    except SolarError as error:
        parser.error(str(error))
    labels = np.array(labels_of(photos))
    if options.centre:
        vectors = vectors - vectors[labels == ""].mean(axis=0)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    results, once = compare(vectors, labels)
    if options.json:
        name = options.model or options.teacher.name
        report = {
            "machine": machine(),
            "model": name,
            "set": options.photos,
            "centred": options.centre,
        }
        report |= {"photos": len(photos), "rows": results, "seconds_once": once}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


# --- ways of ranking --------------------------------------------------------------------------


class Collection:
    """All photos but one, the query, with the row numbers of all photos."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self.query = -1
        self.plain = exact_neighbours(vectors)

    def search(self, vectors: Vectors, k: int, /) -> tuple[RowNumbers, Floats]:
        """Find neighbours, without the query."""
        rows, scores = self.plain(vectors, k + 1)
        return without(rows, scores, self.query)


def without(rows: RowNumbers, scores: Floats, query: int) -> tuple[RowNumbers, Floats]:
    """Cut one row out of lists (m, k + 1), and the last place of those that lack it."""
    places = np.argsort(rows == query, axis=1, kind="stable")[:, :-1]
    return np.take_along_axis(rows, places, axis=1), np.take_along_axis(scores, places, axis=1)


def compare(
    vectors: Vectors, labels: NDArray[np.str_]
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Rank every query in every way; print a table, return its rows and what is done once."""
    everything, n = Collection(vectors), len(vectors)
    once: dict[str, float] = {}

    start = time.perf_counter()
    augmented = augment(np.arange(n), everything.plain, vectors)
    once["DBA"] = time.perf_counter() - start
    near = everything.plain(vectors, 22)  # 20 neighbours, the row itself, the query

    def search(query: Vectors, collection: Vectors, left_out: int) -> tuple[RowNumbers, Floats]:
        scores = collection @ query
        scores[left_out] = -np.inf
        rows = np.argsort(-scores, kind="stable")[:-1]
        return rows, scores[rows]

    def expanded(i: int, collection: Vectors, method: Method, n: int | None = None) -> RowNumbers:
        rows, scores = search(vectors[i], collection, i)
        rows = rows[: n or NEIGHBOURS[method]]
        better = expand_query(vectors[i], collection[rows], scores, method=method, n=n)
        return search(better, collection, i)[0]

    def first(rows: RowNumbers, scores: Floats) -> RowNumbers:
        best = rows[: len(scores)][np.argsort(-scores, kind="stable")]
        return np.concatenate([best, rows[len(scores) :]])

    def diffusion(i: int) -> RowNumbers:
        rows, scores = search(vectors[i], vectors, i)
        graph = mutual_graph(vectors[rows[:TRUNCATE]])
        return first(rows, diffused(scores[:TRUNCATE], graph))

    def reranked(i: int) -> RowNumbers:
        rows, _ = search(vectors[i], vectors, i)
        return first(rows, superglobal(vectors[i], vectors[rows[:TOP]]))

    methods: dict[str, Callable[[int, Vectors], RowNumbers]] = {
        "none": lambda i, dba: search(vectors[i], vectors, i)[0],
        "average": lambda i, dba: expanded(i, vectors, "average"),
        "average, n = 2": lambda i, dba: expanded(i, vectors, "average", 2),
        "alpha": lambda i, dba: expanded(i, vectors, "alpha"),
        "DBA": lambda i, dba: search(vectors[i], dba, i)[0],
        "DBA + alpha": lambda i, dba: expanded(i, dba, "alpha"),
        "diffusion": lambda i, dba: diffusion(i),
        "superglobal": lambda i, dba: reranked(i),
    }
    precisions: dict[str, list[float]] = {name: [] for name in methods}
    queries = np.nonzero(labels != "")[0]
    for i in map(int, queries):
        # The collection as it would be without this photo.
        everything.query = i
        touched = np.nonzero((near[0] == i).any(axis=1))[0]
        kept = augmented[touched]
        augmented[touched] = augment(touched, everything.search, vectors)
        for name, rank in methods.items():
            ranked = rank(i, augmented)
            precisions[name].append(average_precision(np.flatnonzero(labels[ranked] == labels[i])))
        augmented[touched] = kept
    times: dict[str, list[float]] = {name: [] for name in methods}
    turns = np.random.default_rng(0)
    for i in map(int, queries[:: max(len(queries) // 100, 1)]):
        for name in turns.permutation(list(methods)):  # what ran before leaves its cache behind
            run = partial(methods[name], i, augmented)
            times[name].append(min(timeit.repeat(run, number=1, repeat=3)))
    print(f"{'method':<20} {'mAP':>6} {'gain':>6} {'ms per query':>11}")
    results = []
    for name in methods:
        score, ms = 100 * float(np.mean(precisions[name])), 1000 * float(np.median(times[name]))
        gain = score - 100 * float(np.mean(precisions["none"]))
        print(f"{name:<20} {score:>6.1f} {gain:>+6.1f} {ms:>11.1f}")
        results.append({"method": name, "mAP": score, "gain": gain, "milliseconds": ms})
    print(", ".join(f"{name}: {seconds:.1f} s once" for name, seconds in once.items()))
    return results, once


if __name__ == "__main__":
    main()
