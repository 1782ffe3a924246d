"""What an index loses by compression, on photos of places and distractors.

    python benchmarks/compression.py --data DIR --model solar-r18 --cache landmarks.npy

DIR (or SOLAR_DATA) holds landmarks/val-0.tar or buildings/val-0.tar, and
landmarks/distractors-0.tar. Every photo of a place is a query. Compressed indices find candidates
by small codes and rank those exactly. `kept` is the share of the exact index's first `--best`
answers that one gives too; in so small a collection the candidates are a large part of it, which
flatters. `codes alone` is the worst that could happen: mAP of the ranking by the codes themselves,
photos that they do not reach never found.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import descriptors, labels_of, shards

from solar.errors import SolarError
from solar.evaluation.metrics import average_precision
from solar.images.sources import find_photos
from solar.index import Index
from solar.storage.compression import KINDS, train


def main() -> None:
    """Describe the photos or load their descriptors, ask every kind of index, print a table."""
    parser = photo_options(__doc__)
    parser.add_argument("--photos", choices=("landmarks", "buildings"), default="landmarks")
    parser.add_argument("--model", default="solar-r18", help="a model's file or name")
    parser.add_argument("--cache", type=Path, help="keep descriptors in this .npy")
    parser.add_argument("--best", type=int, default=20)
    options = parsed(parser)
    try:
        photos = find_photos([Path(options.data) / shard for shard in shards(options.photos)])
        vectors = descriptors(photos, options.model, None, options.cache)
    except SolarError as error:
        parser.error(str(error))
    shown = zip(photos.names, labels_of(photos), strict=True)
    labels = {name: label for name, label in shown if label}
    rows: list[dict[str, Any]] = []
    exact: dict[str, list[str]] = {}
    for kind in ("none", *KINDS):
        found, facts = answers(vectors, photos.names, list(labels), kind, options.best)
        exact = exact or found
        kept = np.mean([len(set(found[q]) & set(exact[q])) / len(exact[q]) for q in labels])
        rows.append(
            {
                "compress": kind,
                "kept": 100 * float(kept),
                "codes alone": codes_alone(vectors, photos.names, labels, kind),
                "bytes a photo": (facts["bytes_of_codes"] or facts["bytes_of_vectors"])
                / len(vectors),
            }
        )
        print("  ".join(f"{key} {_shown(value)}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        report = {"machine": machine(), "model": options.model, "set": options.photos}
        report |= {"photos": len(photos), "best": options.best, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def answers(
    vectors: np.ndarray[Any, Any], names: tuple[str, ...], queries: list[str], kind: str, best: int
) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The best answers to each query, without itself, and what the index says of itself."""
    where = {name: row for row, name in enumerate(names)}
    asked = vectors[[where[query] for query in queries]]
    with (
        tempfile.TemporaryDirectory(prefix="solar-compression-") as folder,
        Index.create(Path(folder) / "index.solar", vectors, names, compress=kind) as index,
    ):
        found = index.search_vectors(asked, best + 1)
        facts = index.info()
    lists = (
        [hit.path for hit in hits if hit.path != query][:best]
        for query, hits in zip(queries, found, strict=True)
    )
    return dict(zip(queries, lists, strict=True)), facts


def codes_alone(
    vectors: np.ndarray[Any, Any], names: tuple[str, ...], labels: dict[str, str], kind: str
) -> float:
    """The mAP, in percent, of ranking by the codes; by the vectors, where there are none."""
    asked = vectors[[name in labels for name in names]]
    if kind == "none":
        ranked = np.argsort(-(asked @ vectors.T), axis=1, kind="stable")
    else:
        codes = train(kind, vectors)
        codes.add(vectors)
        _, ranked = codes.search(asked, len(vectors))
    queries = [name for name in names if name in labels]
    found = ([names[row] for row in rows if row >= 0] for rows in ranked)
    pairs = zip(queries, found, strict=True)
    return 100 * float(
        np.mean([precision(q, [one for one in paths if one != q], labels) for q, paths in pairs])
    )


def precision(query: str, found: list[str], labels: dict[str, str]) -> float:
    """Average precision where what is not listed is never found."""
    ranks = np.flatnonzero([labels.get(path) == labels[query] for path in found])
    positives = sum(label == labels[query] for label in labels.values()) - 1
    return average_precision(ranks) * len(ranks) / positives if len(ranks) else 0.0


def _shown(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
