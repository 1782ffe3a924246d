"""What geometric verification of the best results gains and costs, on photos of places.

    python benchmarks/verify.py --data DIR --model solar-r101 --local solar-local-345
    python benchmarks/verify.py --data DIR --teacher DIR/teacher/mobilenetv2_imagenet.ts

DIR (or SOLAR_DATA) holds landmarks/val-0.tar or buildings/val-0.tar and
landmarks/distractors-0.tar. Photos of places are queries against all other photos and distractors
(all of them, or --queries spread evenly). The best --top of a global ranking are matched with the
query, with features that were found before; finding them is timed apart (and means little for those
that --features holds already).

Seconds are those of all cores together, photos side by side. Set OMP_NUM_THREADS=1 for that, so
that the threads of one matrix product do not get in the way of the photos'.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import descriptors, labels_of, shards
from numpy.typing import NDArray

from solar.arrays import RowNumbers, Vectors
from solar.errors import SolarError
from solar.evaluation.metrics import average_precision
from solar.images import Photos, find_photos
from solar.local.cache import pack
from solar.ranking.verify import Verifier, VerifySettings, reordered
from solar.storage.types import Hit

DEFAULT = VerifySettings()


def main() -> None:
    """Rank, verify, print a table."""
    options = _options()
    with tempfile.TemporaryDirectory() as temporary:
        try:
            photos = find_photos([options.data / shard for shard in shards(options.photos)])
            vectors = descriptors(photos, options.model, options.teacher, options.descriptors)
            settings = VerifySettings(
                top=options.top,
                inliers=options.inliers,
                model=options.local,
                keypoints=options.keypoints,
                geometry=options.geometry,
            )
            numbers = {name: number for number, name in enumerate(photos.names)}
            verifier = Verifier(
                lambda name: photos.read(numbers[name]), options.features or temporary, settings
            )
        except SolarError as error:
            raise SystemExit(f"verify.py: {error}") from error
        report = measure(photos, vectors, verifier, options.queries)
    name = options.model or options.teacher.name
    report = {
        "machine": machine(),
        "set": options.photos,
        "model": name,
        "local": Path(options.local).name,
        "geometry": options.geometry,
    } | report
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = photo_options(__doc__)
    parser.add_argument("--photos", choices=("landmarks", "buildings"), default="landmarks")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", help="ranks: a model's file or name")
    which.add_argument("--teacher", type=Path, help="ranks: TorchScript to a feature map")
    parser.add_argument("--descriptors", type=Path, help="keep the ranking descriptors here (.npy)")
    parser.add_argument("--local", default="rootsift", help="describes keypoints")
    parser.add_argument("--features", type=Path, help="keep local features in this folder")
    parser.add_argument("--queries", type=int, help="so many, spread evenly; default: all")
    parser.add_argument("--top", type=int, default=DEFAULT.top)
    parser.add_argument("--inliers", type=int, help="default: the features' own threshold")
    parser.add_argument("--keypoints", type=int, default=DEFAULT.keypoints)
    parser.add_argument("--geometry", default=DEFAULT.geometry)
    return parsed(parser)


def measure(
    photos: Photos, vectors: Vectors, verifier: Verifier, count: int | None
) -> dict[str, Any]:
    """Verify the best of every query's ranking, print what that changes, and return it."""
    labels = np.array(labels_of(photos))
    queries = np.flatnonzero(labels != "")
    if count:
        queries = queries[np.linspace(0, len(queries) - 1, count).round().astype(int)]
    rankings = [_ranked(vectors, int(i)) for i in queries]
    top = verifier.settings.top
    met = sorted({photos.names[i] for i in queries}.union(
        *({photos.names[row] for row in rows[:top]} for rows in rankings)
    ))  # fmt: skip
    start = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        known = list(threads.map(verifier.features, met))
    finding = time.perf_counter() - start

    start = time.perf_counter()
    verified = list(_verified(photos, verifier, queries, rankings))
    matching = time.perf_counter() - start
    before, after = (_scores(labels, queries, ranked) for ranked in (rankings, verified))
    report = {
        "photos": len(photos),
        "queries": len(queries),
        "top": top,
        "keypoints": float(np.mean([len(one) for one in known])),
        "before": before,
        "after": after,
        "seconds_a_query": matching / len(queries),
        "seconds_a_photo_once": finding / len(met),
        "bytes_a_photo": float(np.mean([len(pack(one)) for one in known])),
    }
    for name in before:
        print(f"{name:<9} {before[name]:6.1f} → {after[name]:6.1f}")
    for name in ("keypoints", "seconds_a_query", "seconds_a_photo_once", "bytes_a_photo"):
        print(f"{name:<21} {report[name]:,.4g}")
    return report


def _ranked(vectors: Vectors, query: int) -> RowNumbers:
    """All other rows, best first."""
    rows = np.argsort(-(vectors @ vectors[query]), kind="stable")
    others: RowNumbers = rows[rows != query]
    return others


def _verified(
    photos: Photos, verifier: Verifier, queries: NDArray[np.int64], rankings: Sequence[RowNumbers]
) -> Iterator[RowNumbers]:
    """The rankings with the verified photos ahead."""
    top = verifier.settings.top
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for query, rows in zip(queries, rankings, strict=True):
            asked = verifier.features(photos.names[query])
            names = [photos.names[row] for row in rows[:top]]
            found = threads.map(
                lambda name, asked=asked: verifier.evidence(asked, verifier.features(name)), names
            )
            numbers = dict(zip(names, rows[:top], strict=True))
            hits = [
                Hit(name, 0.0, one.inliers, threshold=one.threshold)
                for name, one in zip(names, found, strict=True)
            ]
            order = [numbers[hit.path] for hit in reordered(hits)]
            yield np.concatenate([np.array(order, np.int64), rows[top:]])


def _scores(
    labels: NDArray[np.str_], queries: NDArray[np.int64], rankings: Sequence[RowNumbers]
) -> dict[str, float]:
    precisions, firsts = [], []
    for query, rows in zip(queries, rankings, strict=True):
        right = labels[rows] == labels[query]
        precisions.append(average_precision(np.flatnonzero(right)))
        firsts.append(right[0])
    return {"mAP": 100 * float(np.mean(precisions)), "recall@1": 100 * float(np.mean(firsts))}


if __name__ == "__main__":
    main()
