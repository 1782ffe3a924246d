"""Sizes, scales and runtimes of a model: mAP, recall@1 and processor time of each combination.

    python benchmarks/scales.py --data DIR --cache FOLDER                # landmarks, buildings val
    python benchmarks/scales.py --data DIR --places train --every 10     # to choose by
    python benchmarks/scales.py --folder LABELLED --size 512 384         # photos of one's own

DIR (or SOLAR_DATA) holds the shards that lib/places.py names, without distractors. Embeddings of
single scales are computed once, kept in FOLDER, and averaged: that is what the model does, too. A
photo at a time, one thread; milliseconds are of the processor, decoding not counted.
"""

import json
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import command, photo_options
from lib.places import labels_of, shards
from lib.timed_lines import say

from solar.arrays import Vectors
from solar.describe import Settings
from solar.describe.network import Network, network_of
from solar.describe.pipeline import as_input, as_rows
from solar.describe.runtime import describer
from solar.evaluation import evaluate_labels
from solar.images import Photos, find_photos

SCALES = (0.7071, 1.0, 1.1892, 1.4142, 1.68, 2.0)


def main() -> None:
    """Measure and print a table."""
    parser = photo_options(__doc__)
    parser.add_argument("--model", default="solar-r18", help="a model's file or name")
    parser.add_argument("--places", nargs="+", default=["landmarks", "buildings"])
    parser.add_argument("--folder", type=Path, help="a folder a place, instead of the data")
    parser.add_argument("--every", type=int, default=1, help="take one photo of so many")
    parser.add_argument("--size", nargs="+", type=int, default=[512])
    parser.add_argument("--scales", nargs="+", type=float, default=SCALES)
    parser.add_argument("--backends", nargs="+", default=["openvino-bf16"])
    parser.add_argument("--most", type=int, default=3, help="scales of a combination")
    parser.add_argument("--cache", type=Path, default=Path("scales-cache"))
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    network = network_of(options.model, device="cpu")
    rows: list[dict[str, Any]] = []
    for place in [options.folder] if options.folder else options.places:
        if options.folder:
            photos = find_photos(place)
            labels = [name.rpartition("/")[0] for name in photos.names]
        else:
            photos = find_photos([options.data / one for one in shards(place)[:-1]])
            labels = labels_of(photos)
        taken = range(0, len(photos), options.every)
        photos, labels = photos.select(taken), [labels[number] for number in taken]
        for size in options.size:
            for backend in options.backends:
                single = {
                    scale: kept(network, photos, size, scale, backend, options.cache)
                    for scale in options.scales
                }
                for count in range(1, options.most + 1):
                    for scales in combinations(options.scales, count):
                        row = {"photos": str(place), "size": size, "backend": backend}
                        rows.append(row | scored(single, scales, labels))
                        say(" ".join(str(value) for value in rows[-1].values()))
    if options.json:
        report = {"machine": machine(), "command": command(), "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def kept(
    network: Network, photos: Photos, size: int, scale: float, backend: str, cache: Path
) -> tuple[Vectors, float]:
    """Embeddings at one scale, and milliseconds of the processor per photo, from the cache."""
    what = f"{network.fingerprint[:8]}-{len(photos)}-{photos.names[0].replace('/', '_')}"
    file = cache / f"{what}-{size}-{scale}-{backend}.npz"
    if not file.exists():
        settings = Settings.of(network, size=size, scales=(scale,), backend=backend, mode="exact")
        run = describer(network, settings)
        vectors, spent = [], 0.0
        for number in range(len(photos)):
            pixels = settings.decode(photos.read(number)).pixels
            start = time.process_time()
            vectors.append(as_rows(run(as_input([pixels], run)))[0])
            spent += time.process_time() - start
        np.savez(file, vectors=np.stack(vectors), ms=1000 * spent / len(photos))
    with np.load(file) as known:
        return known["vectors"], float(known["ms"])


def scored(
    single: dict[float, tuple[Vectors, float]], scales: tuple[float, ...], labels: list[str]
) -> dict[str, Any]:
    """How well the average of some scales finds photos again, and what it costs."""
    total = sum(single[scale][0] for scale in scales)
    vectors = total / np.linalg.norm(total, axis=1, keepdims=True)
    found = evaluate_labels(vectors, labels).to_dict()
    finite = evaluate_labels(vectors, labels, average="finite").to_dict()
    return {
        "scales": scales,
        "mAP": round(found["mAP"], 2),
        "finite": round(finite["mAP"], 2),
        "recall@1": round(found["recall@1"], 2),
        "ms": round(sum(single[scale][1] for scale in scales), 1),
    }


if __name__ == "__main__":
    main()
