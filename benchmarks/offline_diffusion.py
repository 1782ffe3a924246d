"""Diffusion at query time and computed beforehand: mAP, time of a query, time and bytes to build.

    OMP_NUM_THREADS=1 python benchmarks/offline_diffusion.py --data DIR --cache photos.npy

DIR (or SOLAR_DATA) holds the shards that lib/clustered.py names: landmarks, buildings and
distractors. Every fifth photo of a place is a query, and not in the collection. Time runs from a
query's descriptor to the ranking, the plain search included; the ways take turns, and the median
over the queries counts.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lib.clustered import SHARDS, base_of
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import labels_of

from solar.arrays import RowNumbers, Vectors
from solar.errors import SolarError
from solar.evaluation.metrics import average_precision
from solar.images.sources import find_photos
from solar.search.diffuse import TRUNCATE, build_graph, diffuse
from solar.search.neighbours import exact_neighbours
from solar.search.offline_diffusion import build_offline, diffuse_offline

SEEDS = 10


def main() -> None:
    """Describe the photos or load their descriptors, build both, ask every query in each way."""
    parser = photo_options(__doc__)
    parser.add_argument("--model", default="solar-r18", help="a model's file or name")
    parser.add_argument("--cache", type=Path, help="keep the photos' descriptors in this .npy")
    options = parsed(parser)
    try:
        shards = [find_photos([options.data / shard]) for shard in SHARDS]
        vectors = base_of(options.data, options.model, options.cache)
    except SolarError as error:
        parser.error(str(error))
    labels = np.array([label for photos in shards for label in labels_of(photos)])
    asked = np.flatnonzero(labels != "")[::5]
    kept = np.setdiff1d(np.arange(len(labels)), asked)
    ways, built = prepared(vectors[kept])
    precisions: dict[str, list[float]] = {name: [] for name in ways}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for query in asked:
        for name, ranked in ways.items():
            start = time.perf_counter()
            rows = ranked(vectors[query])
            times[name].append(1000 * (time.perf_counter() - start))
            precisions[name].append(precision(labels[kept], rows, labels[query]))
    report: dict[str, Any] = {"machine": machine(), "photos": len(kept), "queries": len(asked)}
    report |= {"built": built, "ways": {}}
    for name in ways:
        row = {"mAP": 100 * float(np.mean(precisions[name])), "ms": statistics.median(times[name])}
        report["ways"][name] = row
        print(f"{name:10} mAP {row['mAP']:.1f}  {row['ms']:.3f} ms", flush=True)
    print(built)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def prepared(
    collection: Vectors,
) -> tuple[dict[str, Callable[[Vectors], RowNumbers]], dict[str, float]]:
    """How to rank for a query in each way, and what preparing that took."""
    search, count = exact_neighbours(collection), len(collection)
    start = time.perf_counter()
    graph = build_graph(count, search, collection.__getitem__)
    middle = time.perf_counter()
    offline = build_offline(count, search, collection.__getitem__)
    built = {"graph_s": middle - start, "offline_s": time.perf_counter() - middle}
    built["graph_bytes_a_photo"] = (graph.columns.nbytes + graph.weights.nbytes) / count
    built["offline_bytes_a_photo"] = (offline.rows.nbytes + offline.scores.nbytes) / count

    def found(query: Vectors, k: int) -> tuple[RowNumbers, Vectors]:
        rows, scores = search(query[None], k)
        return rows[0], scores[0]

    return {
        "none": lambda query: found(query, TRUNCATE)[0],
        "diffusion": lambda query: diffuse(*found(query, TRUNCATE), graph)[0],
        "offline": lambda query: diffuse_offline(*found(query, SEEDS), offline)[0],
    }, built


def precision(labels: np.ndarray[Any, Any], rows: RowNumbers, label: str) -> float:
    """Average precision where what is not listed is never found."""
    ranks = np.flatnonzero(labels[rows] == label)
    positives = int((labels == label).sum())
    return average_precision(ranks) * len(ranks) / positives if len(ranks) else 0.0


if __name__ == "__main__":
    main()
