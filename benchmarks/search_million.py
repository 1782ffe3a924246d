"""Search in a million vectors: the embedded index against numpy, exactly and compressed.

    python benchmarks/search_million.py [--rows 1000000] [--folder scratch/] [--json results.json]
    python benchmarks/search_million.py --only checking --dim 128   # what checksums cost

Makes random unit vectors of length 2048 with 20 planted neighbours (cosine 0.3 to 0.9) for each of
70 queries, as a `.npy` file for numpy and as two indices, then measures, each in a process of its
own: top 100 for all queries, with opening; opening alone; adding 1,000 vectors; one query at a
time, exact and compressed; and what checking costs: the same searches with every checksum and
without, in turns. Memory is what a process holds beyond its libraries and mapped files.
All find their files in the page cache, and the fastest of three rounds counts: what else runs on a
machine only ever adds time. It needs three times the bytes of the vectors on disk, and
more than twice as much memory (25 GB and 17 GB for a million).
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
from lib.machine import machine
from lib.memory import PeakMemory, own_memory

QUERIES, PLANTED, K = 70, 20, 100
BLOCK = 10_000
ROUNDS = 3
OPENINGS = 11  # processes that open an index
TURNS = 9  # of searches with checksums and without
Array = npt.NDArray[np.float32]


def main() -> None:
    """Make the data, measure everything, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--only", choices=("checking",), help="Measure this and nothing else.")
    parser.add_argument("--folder", type=Path, help="Where to put the data; a temporary folder.")
    parser.add_argument("--compress", default="pq")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=sorted(MEASUREMENTS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(MEASUREMENTS[arguments.one](arguments.folder)))
        return
    if arguments.folder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        folder = Path(scratch)
        make(folder, arguments.rows, arguments.dim, arguments.compress)
        result = {name: getattr(arguments, name) for name in ("rows", "dim", "compress")}
        result["queries"] = QUERIES
        result |= {} if arguments.only else measure(folder)
        result["checking"] = measure_checking(folder)
    if not arguments.only:
        show(result)
    show_checking(result["checking"])
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")


def measure(folder: Path) -> dict[str, Any]:
    """Everything, in this order, so that all find the files in the same state."""
    result: dict[str, Any] = {}
    for name in (*("numpy", "exact") * ROUNDS, "single", "opening", "adding"):
        found = in_a_process(name, folder)
        if name not in result or found["seconds"] < result[name]["seconds"]:
            result[name] = found
    return result


def measure_checking(folder: Path) -> dict[str, Any]:
    """What checksums cost: opening in several processes, then searches in one."""
    openings = [in_a_process("opening", folder) for _ in range(OPENINGS)]
    opened = {
        name: {"best": min(times), "median": statistics.median(times)}
        for name in openings[0]
        for times in [[opening[name] for opening in openings]]
    }
    return {"opening": opened, **in_a_process("checking", folder)}


def in_a_process(name: str, folder: Path) -> dict[str, Any]:
    """A measurement in a process of its own, its files in the page cache."""
    warm(folder, *FILES.get(name, ()))
    command = [sys.executable, __file__, "--folder", str(folder), "--one", name]
    # Threads that wait for one another on a busy machine would hide what checking costs.
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if name == "checking" else {}
    environment = {**os.environ, **alone}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def warm(folder: Path, *names: str) -> None:
    """Read files once, so that what is measured next is not the disk."""
    for path in (path for name in names for path in folder.glob(name)):
        with path.open("rb") as file:
            while file.read(2**24):
                pass


# Data


def make(folder: Path, rows: int, dim: int, compress: str) -> None:
    """Write `vectors.npy`, `queries.npy`, `exact.solar` and `small.solar`."""
    from solar.images import Stamp
    from solar.index import Index
    from solar.storage.types import Photo

    dice = np.random.default_rng(0)
    queries = unit(dice.standard_normal((QUERIES, dim), dtype=np.float32))
    np.save(folder / "queries.npy", queries)
    vectors = np.lib.format.open_memmap(
        folder / "vectors.npy", "w+", dtype=np.float32, shape=(rows, dim)
    )
    for first in range(0, rows, BLOCK):
        block = dice.standard_normal((min(BLOCK, rows - first), dim), dtype=np.float32)
        vectors[first : first + BLOCK] = unit(block)
    for number, row in enumerate(dice.choice(rows, QUERIES * PLANTED, replace=False)):
        vectors[row] = neighbour(queries[number % QUERIES], dice)
    names = [
        Photo(f"{row:07}.jpg", 1024, 768, stamp=Stamp(200_000 + row, 10**18 + row, f"{row:064x}"))
        for row in range(rows)
    ]
    started = time.perf_counter()
    Index.create(folder / "exact.solar", vectors, names).close()
    built = time.perf_counter()
    Index.create(folder / "small.solar", vectors, names, compress=compress).close()
    print(f"built in {built - started:.0f} s, compressed in {time.perf_counter() - built:.0f} s")


def neighbour(query: Array, dice: np.random.Generator) -> Array:
    """A unit vector whose cosine to the query lies between 0.3 and 0.9."""
    away = dice.standard_normal(len(query), dtype=np.float32)
    away = unit(away - (away @ query) * query)
    cosine = dice.uniform(0.3, 0.9)
    return np.asarray(cosine * query + np.sqrt(1 - cosine**2) * away, np.float32)


def unit(vectors: Array) -> Array:
    """Rows of length one."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)


# Measurements, each in a fresh process


def numpy_search(folder: Path) -> dict[str, Any]:
    """What one would write without an index: load, multiply, sort."""
    queries = np.load(folder / "queries.npy")

    def search() -> Array:
        vectors = np.load(folder / "vectors.npy")
        return np.asarray(np.argsort(-(queries @ vectors.T), axis=1)[:, :K])

    return timed(search)


def exact_search(folder: Path) -> dict[str, Any]:
    """Ours, exact."""
    from solar.index import Index

    queries = np.load(folder / "queries.npy")
    index = folder / "exact.solar"
    return timed(lambda: Index.open(index).search_vectors(queries, K))


def opening(folder: Path) -> dict[str, Any]:
    """Milliseconds to open each index, in a process that has not touched it."""
    from solar.index import Index

    spent = {}
    for name in ("exact", "small"):
        started = time.perf_counter()
        Index.open(folder / f"{name}.solar")
        spent[f"{name}_ms"] = 1000 * (time.perf_counter() - started)
    return spent


def adding(folder: Path) -> dict[str, Any]:
    """Seconds to add 1,000 vectors to each index, on the disk when done."""
    from solar.index import Index

    dim = len(np.load(folder / "queries.npy")[0])
    vectors = unit(np.random.default_rng(1).standard_normal((1000, dim), dtype=np.float32))
    names = [f"new/{row}.jpg" for row in range(1000)]
    spent = {}
    for name in ("exact", "small"):
        started = time.perf_counter()
        Index.open(folder / f"{name}.solar").add(vectors, names)
        spent[f"{name}_s"] = time.perf_counter() - started
    return spent


def one_by_one(folder: Path) -> dict[str, Any]:
    """Recall and latency of single queries, compressed against exact, with warm files."""
    from solar.index import Index

    queries = np.load(folder / "queries.npy")
    exact, small = (Index.open(folder / f"{name}.solar") for name in ("exact", "small"))
    rounds = [
        (singly(exact, queries, 10)[1], singly(small, queries, QUERIES)) for _ in range(ROUNDS)
    ]
    exact_ms, small_ms = min(e for e, _ in rounds), min(s for _, (_, s) in rounds)
    found = rounds[0][1][0]
    truth = [[hit.path for hit in hits] for hits in exact.search_vectors(queries, 10)]
    shared = sum(len(set(a) & set(b)) for a, b in zip(truth, found, strict=True))
    facts = small.info()
    return {
        "recall_at_10": shared / (10 * QUERIES),
        "exact_ms": exact_ms,
        "small_ms": small_ms,
        "bytes_ratio": facts["bytes_of_vectors"] / facts["bytes_of_codes"],
    }


def singly(index: Any, queries: Array, count: int) -> tuple[list[list[str]], float]:
    """Top ten of each query, asked one at a time, and the median time of an answer."""
    index.search(queries[0])  # what is read once is read now
    answers, times = [], []
    for query in queries[:count]:
        started = time.perf_counter()
        answers.append([hit.path for hit in index.search(query)])
        times.append(1000 * (time.perf_counter() - started))
    return answers, statistics.median(times)


def checking(folder: Path) -> dict[str, Any]:
    """Milliseconds of a search with checksums and without: of the first ones, and from then on."""
    from solar.index import Index

    queries = np.load(folder / "queries.npy")
    result: dict[str, Any] = {}
    for name, count in (("exact", 10), ("small", QUERIES)):
        index = Index.open(folder / f"{name}.solar")
        engine: Any = index.engine
        with unchecked():
            index.search(queries[0])  # what is read once is read now
        first = milliseconds(index.search, queries[0])
        result[name] = {"first_ms": first}
        result[name] |= in_turns(index.search, queries[:count])

        def unknown(query: Array, index: Any = index, engine: Any = engine) -> None:
            engine._latest.known.clear()
            index.search(query)

        result[f"{name}, photos not found before"] = in_turns(unknown, queries[:count])
    dice = np.random.default_rng(2)
    for wanted in (10, 100):
        rows = [dice.choice(len(index), wanted, replace=False).tolist() for _ in queries]
        with engine._metadata.reading() as view:
            result[f"paths of {wanted} rows"] = in_turns(partial(_paths, view), rows)
    return result


def _paths(view: Any, rows: Any) -> Any:
    return view.paths(rows)  # which is another function without checksums


def in_turns(work: Callable[[Any], Any], given: Any) -> dict[str, float]:
    """Milliseconds with checksums and without, which take turns: the best of each, their median.

    Of the time on a processor, so that what else runs does not count.
    """
    pairs = []
    for one in given:
        turns = []
        for _ in range(TURNS):
            checked = milliseconds(work, one, clock=time.process_time)
            with unchecked():
                turns.append((checked, milliseconds(work, one, clock=time.process_time)))
        pairs.append(np.min(turns, axis=0))
    checked, plain = np.median(pairs, axis=0).tolist()
    cost = float(np.median([a - b for a, b in pairs])) / plain
    return {"checked_ms": checked, "plain_ms": plain, "cost": cost}


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Searches as they would be if nothing were compared with its checksum."""
    from solar.storage import folder_engine as folder_engine
    from solar.storage.catalogue_view import View

    def nothing(*_: Any) -> None:
        """Not a mock, which would cost more than what it stands for."""

    def paths(view: View, rows: Any) -> dict[int, str]:
        some = json.dumps(sorted(rows))
        wanted = "row IN (SELECT value FROM json_each(?))"
        return dict(view.execute(f"SELECT row, path FROM photos WHERE {wanted}", [some]))

    with (
        mock.patch.object(folder_engine, "check_segments", nothing),
        mock.patch.object(View, "paths", paths),
    ):
        yield


def milliseconds(
    work: Callable[..., Any], *given: Any, clock: Callable[[], float] = time.perf_counter
) -> float:
    """How long it took."""
    started = clock()
    work(*given)
    return 1000 * (clock() - started)


def timed(search: Callable[[], Any]) -> dict[str, Any]:
    """Seconds, and the most memory above what the process held before, mapped files apart."""
    before = own_memory()
    with PeakMemory() as peak:
        started = time.perf_counter()
        search()
        spent = time.perf_counter() - started
    return {"seconds": spent, "peak_mib": (peak.bytes - before) / 2**20}


def show(result: dict[str, Any]) -> None:
    """Print what was measured beside what is promised."""
    theirs, ours, single = result["numpy"], result["exact"], result["single"]
    rows = [
        ("top 100 for 70 queries, numpy", f"{theirs['seconds']:.2f} s", ""),
        ("top 100 for 70 queries, exact index", f"{ours['seconds']:.2f} s", ""),
        ("  faster by", f"{theirs['seconds'] / ours['seconds']:.1f}", "≥ 5"),
        ("memory, numpy", f"{theirs['peak_mib']:.0f} MiB", ""),
        ("memory, exact index", f"{ours['peak_mib']:.0f} MiB", ""),
        ("  smaller by", f"{theirs['peak_mib'] / ours['peak_mib']:.1f}", "≥ 8"),
        ("one query, exact", f"{single['exact_ms']:.1f} ms", ""),
        (f"one query, {result['compress']}", f"{single['small_ms']:.2f} ms", ""),
        ("  faster by", f"{single['exact_ms'] / single['small_ms']:.1f}", "≥ 20"),
        ("  bytes smaller by", f"{single['bytes_ratio']:.1f}", "≥ 16"),
        ("  recall@10", f"{single['recall_at_10']:.4f}", "≥ 0.99"),
        ("opening", f"{max(result['opening'].values()):.1f} ms", "≤ 100"),
        ("adding 1,000 vectors", f"{max(result['adding'].values()):.2f} s", "≤ 2"),
    ]
    print(f"\n{result['rows']:,} × {result['dim']}")
    for what, value, promise in rows:
        print(f"{what:<38} {value:>12}   {promise}")


def show_checking(result: dict[str, Any]) -> None:
    """Print what checksums cost beside what is promised."""
    print()
    for name in ("exact", "small"):
        opened, found = result["opening"][f"{name}_ms"], result[name]
        times = f"{opened['median']:.1f} ms, at best {opened['best']:.1f}"
        print(f"{name:<16} opening {times}  (≤ 100)")
        print(f"{'':<16} first search {found['first_ms']:.1f} ms")
    for name, found in result.items():
        if "cost" in found:
            times = f"{found['checked_ms']:.3f} ms, plain {found['plain_ms']:.3f}"
            print(f"{name:<38} {times}: {100 * found['cost']:+.1f} %")


MEASUREMENTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "numpy": numpy_search,
    "exact": exact_search,
    "single": one_by_one,
    "opening": opening,
    "adding": adding,
    "checking": checking,
}

FILES = {
    "numpy": ("vectors.npy",),
    "exact": ("exact.solar/segments/*",),
    "single": ("exact.solar/segments/*", "small.solar/segments/*"),
    "checking": ("exact.solar/segments/*", "small.solar/segments/*"),
}

if __name__ == "__main__":
    main()
