"""Every kind of index beside the bare library: recall@10, one query, and queries in batches.

    python benchmarks/bare_library.py --data DIR --cache photos.npy --dim 512
    python benchmarks/bare_library.py --data DIR --cache photos.npy --dim 2048

DIR (or SOLAR_DATA) holds the shards that lib/clustered.py names. Of the descriptors of their photos
it makes `--rows` vectors that lie around them, 300 photos held out as queries; vectors of 2048
numbers are those of 512 through a layer of random weights. Beside each kind stands Faiss with the
same settings and nothing around it: rows in memory, no paths, no file:

    none   IndexFlatIP
    fp16   IndexScalarQuantizer, QT_fp16
    pq     PQ128x4fs (512) or PQ256x4fs (2048), RFlat, k factor 60
    ivf    IVF1024, the same codes, RFlat, k factor 60, nprobe 128, trained on 50,000 rows
           in ten rounds

and for comparison hnswlib and usearch, where these are installed (`--graphs`: they take minutes to
build). The two take turns in one process. A single query's time is the median over queries of the
fastest of several rounds; that of a batch, per query, the fastest round. `--clock cpu` measures the
time of the processor instead, for a machine that others use too; threads that spin count twice.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from lib.clustered import base_of, clustered, widened
from lib.machine import machine
from lib.options import parsed, photo_options

from solar.arrays import RowNumbers, Vectors
from solar.errors import SolarError
from solar.index import Index
from solar.ranking.neighbours import largest

K, SINGLE, BATCH = 10, 100, 64
CANDIDATES = 60  # for each row wanted, Faiss's k factor: 600, as ours
KINDS = ("none", "fp16", "pq", "ivf")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

Search = Callable[[Vectors], RowNumbers]


def main() -> None:
    """Make vectors, build and ask every kind and its bare counterpart, print a table."""
    parser = photo_options(__doc__)
    parser.add_argument("--model", default="solar-r18", help="a model's file or name")
    parser.add_argument("--cache", type=Path, help="keep the photos' descriptors in this .npy")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--graphs", action="store_true", help="also hnswlib and usearch")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parsed(parser)
    try:
        base = base_of(options.data, options.model, options.cache)
    except SolarError as error:
        parser.error(str(error))
    vectors, queries = clustered(base, options.rows)
    if options.dim != vectors.shape[1]:
        vectors, queries = (widened(some, options.dim) for some in (vectors, queries))
    truth = np.concatenate([largest(some @ vectors.T, K) for some in np.array_split(queries, 30)])
    rows: list[dict[str, Any]] = []
    for name, pair in contestants(vectors, options.kinds, graphs=options.graphs):
        row = {"kind": name, "built_s": {who: built for who, (built, _) in pair.items()}}
        searches = {who: search for who, (_, search) in pair.items()}
        row |= measured(searches, queries, truth, options.rounds, CLOCKS[options.clock])
        rows.append(row)
        show(row)
    if options.json:
        asked = {name: getattr(options, name) for name in ("rows", "dim", "rounds", "clock")}
        report = {"machine": machine(), **asked, "photos": len(base), "kinds": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def contestants(
    vectors: Vectors, kinds: list[str], *, graphs: bool
) -> Iterator[tuple[str, dict[str, tuple[float, Search]]]]:
    """For each kind: who answers, how long building took, and how to ask."""
    names = [f"{row:07}.jpg" for row in range(len(vectors))]
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="solar-bare-") as folder:
            start = time.perf_counter()
            with Index.create(Path(folder) / "i.solar", vectors, names, compress=kind) as index:
                built = time.perf_counter() - start
                yield kind, {"solar": (built, asking(index)), "bare": bare(kind, vectors)}
    for name, build in (("hnswlib", hnswlib), ("usearch", usearch)) if graphs else ():
        yield name, {"bare": build(vectors)}


def asking(index: Index) -> Search:
    """Ask an index of ours; photos are called by their rows."""

    def search(queries: Vectors) -> RowNumbers:
        found = index.search_vectors(queries, K)
        return np.array([[int(hit.path[:-4]) for hit in hits] for hits in found])

    return search


def bare(kind: str, vectors: Vectors) -> tuple[float, Search]:
    """The library itself."""
    faiss = import_module("faiss")
    dim, start = vectors.shape[1], time.perf_counter()
    codes = f"PQ{min(dim // 4, 256)}x4fs"  # more do not fit Faiss's sums of 16 bits
    recipe = {"none": "Flat", "fp16": "SQfp16", "pq": f"{codes},RFlat"}
    recipe["ivf"] = f"IVF1024,{codes},RFlat"
    index = faiss.index_factory(dim, recipe[kind], faiss.METRIC_INNER_PRODUCT)
    if kind == "ivf":
        faiss.downcast_index(index.base_index).cp.niter = 10
    index.train(vectors[:50_000])
    index.add(vectors)
    if kind in ("pq", "ivf"):
        index.k_factor = CANDIDATES
    if kind == "ivf":
        faiss.downcast_index(index.base_index).nprobe = 128
    return time.perf_counter() - start, lambda queries: index.search(queries, K)[1]


def hnswlib(vectors: Vectors) -> tuple[float, Search]:
    """Another library's graph, for comparison."""
    start = time.perf_counter()
    index = import_module("hnswlib").Index("ip", vectors.shape[1])
    index.init_index(len(vectors), ef_construction=200, M=16)
    index.add_items(vectors)
    index.set_ef(128)
    return time.perf_counter() - start, lambda queries: index.knn_query(queries, K)[0]


def usearch(vectors: Vectors) -> tuple[float, Search]:
    """Another library's graph in float16, for comparison."""
    start = time.perf_counter()
    index = import_module("usearch.index").Index(
        ndim=vectors.shape[1], metric="ip", dtype="f16", expansion_search=128
    )
    index.add(np.arange(len(vectors)), vectors)
    return time.perf_counter() - start, lambda queries: np.atleast_2d(index.search(queries, K).keys)


def measured(
    searches: dict[str, Search],
    queries: Vectors,
    truth: RowNumbers,
    rounds: int,
    clock: Callable[[], float],
) -> dict[str, Any]:
    """Recall and milliseconds of each, taking turns."""

    def spent(search: Search, some: Vectors) -> float:
        start = clock()
        search(some)
        return 1000 * (clock() - start)

    found = {who: search(queries) for who, search in searches.items()}  # and what is read once
    recall = {
        who: float(np.mean([len(set(a) & set(b)) / K for a, b in zip(rows, truth, strict=True)]))
        for who, rows in found.items()
    }
    # Exact searches take a hundred times as long: fewer of them tell as much.
    count = SINGLE if min(spent(search, queries[:1]) for search in searches.values()) < 5 else 10
    single = {who: np.full(count, np.inf) for who in searches}
    batch = dict.fromkeys(searches, np.inf)
    for _ in range(rounds):
        for who, search in searches.items():
            times = [spent(search, queries[i : i + 1]) for i in range(count)]
            single[who] = np.minimum(single[who], times)
        for who, search in searches.items():
            batch[who] = min(batch[who], spent(search, queries[:BATCH]) / BATCH)
    one = {who: float(np.median(times)) for who, times in single.items()}
    return {"recall": recall, "single_ms": one, "batch_ms": batch}


def show(row: dict[str, Any]) -> None:
    """A line for each who answered."""
    for who in row["recall"]:
        figures = f"recall {row['recall'][who]:.4f}  single {row['single_ms'][who]:8.3f} ms"
        figures += f"  batch {row['batch_ms'][who]:8.3f} ms  built {row['built_s'][who]:6.1f} s"
        print(f"{row['kind']:8} {who:6} {figures}", flush=True)
    if len(row["recall"]) == 2:
        ratios = (row[what]["solar"] / row[what]["bare"] for what in ("single_ms", "batch_ms"))
        print(f"{'':8} ratio  single {next(ratios):.2f}  batch {next(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
