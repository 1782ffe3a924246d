"""What every way to rank again gains and costs, as a user gets it from `Index.search`.

    python benchmarks/ranking.py --data DIR --photos mixed --cache DIR

DIR (or SOLAR_DATA) holds landmarks/val-0.tar, buildings/val-0.tar and landmarks/distractors-0.tar.
Photos of places are queries (all of them, or --queries spread evenly) against all other photos and
the distractors. `mixed` takes every tenth photo of landmarks and every third of buildings: 486
photos of 123 places, few of each.

Seconds are medians, from a query's descriptor, which the index has, to its ten best photos, on all
cores: of a first search with no local features kept, and of later ones with all of them. Bytes are
those of the local features.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import descriptors, labels_of, searchable, shards
from numpy.typing import NDArray

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.evaluation.metrics import average_precision
from solar.images import Photos, find_photos
from solar.index import Index
from solar.local.cache import own_folder
from solar.local.features import LocalFeatures
from solar.ranking import verify
from solar.ranking.calibration import Evidence
from solar.ranking.verify import Verifier, VerifySettings
from solar.storage.protocol import Engine

# None of the first has a calibration: verification then puts the most points first.
PLAIN = ("", "average", "alpha", "dba", "diffusion", "superglobal", "verify")
TOGETHER = ("diffusion,verify", "superglobal,verify")
FIRST = 5  # queries with nothing kept


def main() -> None:
    """Search in every way, print a table."""
    options = _options()
    try:
        photos, labels, vectors = collection(options)
    except SolarError as error:
        raise SystemExit(f"ranking.py: {error}") from error
    queries = np.flatnonzero(labels != "")
    queries = queries[[(labels == labels[query]).sum() > 1 for query in queries]]
    if options.queries:
        queries = queries[np.linspace(0, len(queries) - 1, options.queries).round().astype(int)]
    rows = []
    print(f"{'method':<24} {'mAP':>6} {'r@1':>6} {'r@5':>6} {'later, s':>9}")
    with tempfile.TemporaryDirectory() as temporary:
        features = options.cache / "features" if options.cache else Path(temporary) / "features"
        plain, usual = (
            searchable(photos, vectors, model, Path(temporary) / name, features)
            for name, model in (("plain", ""), ("usual", options.model))
        )
        for index in (plain, usual):
            vars(index)["located"] = list  # where thousands of files are is of no interest
        ways = [(name or "none", plain, name) for name in (*PLAIN, *TOGETHER)]
        ways.append(("the default", usual, "auto"))
        with remembering(usual):
            told = [measure(index, photos, labels, queries, way) for _, index, way in ways]
        for (name, index, rerank), scores in zip(ways, told, strict=True):
            row = {"method": name, **scores}
            row["seconds"] = seconds(index, [photos.names[i] for i in queries[:30]], rerank)
            print(f"{name:<24} {row['mAP']:6.1f} {row['recall@1']:6.1f} {row['recall@5']:6.1f} "
                  f"{row['seconds']:9.3f}", flush=True)  # fmt: skip
            rows.append(row)
        first = first_searches(photos, vectors, options.model, queries)
        info = usual.info()
    report = {"machine": machine(), "set": options.photos, "model": options.model}
    report |= {"photos": len(photos), "queries": len(queries), "rows": rows}
    report |= {"seconds_first": first}
    report["bytes_a_photo"] = info["bytes_of_local_features"] / info["local_features"]
    print(f"first search {first:.2f} s, {report['bytes_a_photo']:,.0f} bytes per photo")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = photo_options(__doc__)
    parser.add_argument("--photos", choices=("landmarks", "buildings", "mixed"), default="mixed")
    parser.add_argument("--model", default="solar-lite0", help="a model's name")
    parser.add_argument("--cache", type=Path, help="keep descriptors and local features here")
    parser.add_argument("--queries", type=int, help="so many, spread evenly; default: all")
    return parsed(parser)


def collection(options: argparse.Namespace) -> tuple[Photos, NDArray[np.str_], Vectors]:
    """The photos, what they show, and their descriptors."""
    names = ("landmarks", "buildings") if options.photos == "mixed" else (options.photos,)
    known: dict[str, tuple[str, Any]] = {}  # what each photo shows, and its vector
    for name, step in zip(names, (10, 3) if len(names) > 1 else (1,), strict=True):
        photos = find_photos([options.data / shard for shard in shards(name)])
        cache = options.cache and options.cache / f"{options.model}-{name}.npy"
        rows = zip(labels_of(photos), descriptors(photos, options.model, cache), strict=True)
        every = dict(zip(photos.names, rows, strict=True))
        places = [photo for photo, (label, _) in every.items() if label]
        known |= {photo: every[photo] for photo in places[::step]}
        known |= {photo: facts for photo, facts in every.items() if not facts[0]}
    paths = dict.fromkeys(options.data / shard for name in names for shard in shards(name))
    photos = find_photos(list(paths))
    photos = photos.select(photos.numbers[name] for name in known)
    labels = np.array([label for label, _ in known.values()])
    return photos, labels, np.stack([vector for _, vector in known.values()])


def measure(
    index: Index, photos: Photos, labels: NDArray[np.str_], queries: NDArray[np.int64], rerank: str
) -> dict[str, float]:
    """Rank everything for each query."""
    precisions, first, five = [], [], []
    for query in queries.tolist():
        name = photos.names[query]
        hits = index.search(name, len(photos), rerank=rerank or None)
        right = np.array([labels[photos.numbers[hit.path]] == labels[query] for hit in hits])
        precisions.append(average_precision(np.flatnonzero(right)))
        first.append(right[0])
        five.append(right[:5].any())
    told = {"mAP": precisions, "recall@1": first, "recall@5": five}
    return {name: 100 * float(np.mean(values)) for name, values in told.items()}


def seconds(index: Index, names: Sequence[str], rerank: str) -> float:
    """The median time of a search once all features are kept."""
    took = []
    folder = own_folder(index.engine.folder)
    assert folder is not None
    with Index.open(folder.parent) as fresh:  # which remembers nothing
        for name in names:
            fresh.search(name, rerank=rerank or None)
            start = time.perf_counter()
            fresh.search(name, rerank=rerank or None)
            took.append(time.perf_counter() - start)
    return float(np.median(took))


@contextmanager
def remembering(index: Index) -> Iterator[None]:
    """Within the block, two photos are matched once, whichever method asks."""
    features: dict[str, LocalFeatures] = {}
    compared: dict[tuple[int, str], Evidence | None] = {}

    class Remembering(Verifier):
        def features(self, path: str) -> LocalFeatures:
            if path not in features:
                features[path] = super().features(path)
            return features[path]

        def matched(
            self, queries: Sequence[LocalFeatures], paths: Sequence[str]
        ) -> dict[str, Evidence]:
            query = id(queries[0])
            new = [path for path in paths if (query, path) not in compared]
            for path, found in super().matched(queries, new).items():
                compared[query, path] = found
            known = {path: compared.get((query, path)) for path in paths}
            return {path: one for path, one in known.items() if one is not None}

    def made(engine: Engine, settings: VerifySettings) -> Verifier:
        return Remembering(index.roots.find, index_features, settings)

    index_features = own_folder(index.engine.folder)
    before, verify.index_verifier = verify.index_verifier, made
    try:
        yield
    finally:
        verify.index_verifier = before


def first_searches(
    photos: Photos, vectors: Vectors, model: str, queries: NDArray[np.int64]
) -> float:
    """Seconds of the first search in an index that has kept no features."""
    seconds: list[float] = []
    for query in queries[:: max(len(queries) // FIRST, 1)][:FIRST].tolist():
        with tempfile.TemporaryDirectory() as folder:
            index: Any = searchable(photos, vectors, model, Path(folder))
            start = time.perf_counter()
            index.search(photos.names[query])
            seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


if __name__ == "__main__":
    main()
