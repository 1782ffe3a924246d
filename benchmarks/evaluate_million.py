"""Revisited Oxford among a million distractors: counting ranks against sorting everything.

    python benchmarks/evaluate_million.py --folder scratch [--rows 1001001] [--json out.json]

Writes random unit descriptors of 2,048 numbers: `--rows` distractors (8.2 GB for the full million),
4,993 database rows and 70 queries, with a little of each query mixed into its answers in the real
ground truth, so that ranks are spread. Then, each in a process of its own and with the file in the
page cache:

- ours: `solar.evaluate`, which maps the file and counts ranks in chunks
- numpy: load, concatenate database and distractors (as the published evaluation does), one matrix
  product, one full argsort; needs about 17 GB for the full million
- numpy lean: the same without the concatenation, whose copy an expert would save
- numpy float64: products in double precision and a stable sort: slow, and what is right. Single
  precision swaps rows whose scores differ by less than its rounding, so its mAP is off by a little

With `--gpu` instead: ours with the product on a GPU that has been started, and mere reading of the
file in chunks, which is what it should be bound by.

Time runs from after `import numpy` to the three mAPs, opening and importing the rest included.
Memory is the largest RssAnon of /proc/self/status, looked at every 10 ms, less what it was at the
start: pages of a mapped file are RssFile and do not count, everything allocated does.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.memory import PeakMemory, own_memory

DIM, MILLION, CHUNK = 2048, 1_001_001, 16_384
# The weights of tests/golden, smaller because chance is smaller in 2,048 dimensions than in 32.
MIXED = {"easy": 0.10, "hard": 0.055, "junk": 0.07}
TRUTH = Path(__file__).parents[2] / "shared/data/revisited/gnd_roxford5k.pkl"
PROTOCOLS = ("easy", "medium", "hard")


def generate(folder: Path, truth_file: Path, rows: int) -> None:
    """Write database, queries and distractors, unless they are there."""
    from solar.datasets.public.revisited import read_ground_truth

    truth = read_ground_truth(truth_file, "roxford5k")
    random = np.random.default_rng(0)
    database = random.standard_normal((len(truth.database), DIM), np.float32)
    queries = random.standard_normal((len(truth.queries), DIM), np.float32)
    for query, vector in zip(truth.queries, queries, strict=True):
        for kind, weight in MIXED.items():
            database[query.answers[kind]] += np.float32(weight) * vector
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "database.npy", unit(database))
    np.save(folder / "queries.npy", unit(queries))
    path = folder / "distractors.npy"
    if path.exists() and np.load(path, mmap_mode="r").shape == (rows, DIM):
        return
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, DIM))
    for start in range(0, rows, CHUNK):
        some = min(CHUNK, rows - start)
        out[start : start + some] = unit(random.standard_normal((some, DIM), np.float32))
    out.flush()


def unit(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows divided by their lengths."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def ours(folder: Path, truth_file: Path, device: str | None = None) -> dict[str, float]:
    """The three mAPs by `solar.evaluate`."""
    from solar.evaluation import evaluate

    found = evaluate(
        "roxford5k",
        ground_truth=truth_file,
        features=(folder / "database.npy", folder / "queries.npy"),
        distractors=folder / "distractors.npy",
        device=device,
    )
    return {protocol: found.mean("AP", protocol) for protocol in PROTOCOLS}


def by_numpy(folder: Path, truth_file: Path, *, lean: bool = False) -> dict[str, float]:
    """The three mAPs from one full sort."""
    database, queries = np.load(folder / "database.npy"), np.load(folder / "queries.npy")
    distractors = np.load(folder / "distractors.npy")
    if lean:
        scores = np.concatenate([database @ queries.T, distractors @ queries.T])
    else:
        everything = np.concatenate([database, distractors])
        scores = everything @ queries.T
    order = np.argsort(-scores, axis=0)
    return mean_precisions(order, truth_file)


def in_double_precision(folder: Path, truth_file: Path) -> dict[str, float]:
    """The three mAPs from scores in double precision and a stable full sort."""
    queries = np.load(folder / "queries.npy").astype(np.float64)
    files = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("database", "distractors")]
    scores = np.concatenate(
        [
            rows[start : start + CHUNK].astype(np.float64) @ queries.T
            for rows in files
            for start in range(0, len(rows), CHUNK)
        ]
    )
    return mean_precisions(np.argsort(-scores, axis=0, kind="stable"), truth_file)


def mean_precisions(order: np.ndarray[Any, Any], truth_file: Path) -> dict[str, float]:
    """The three mAPs of whole sorted lists, a column a query."""
    from solar.datasets.public.revisited import read_ground_truth
    from solar.evaluation.metrics import mean, measure, without_junk

    truth = read_ground_truth(truth_file, "roxford5k")
    places = np.empty(len(order), np.int64)
    found: dict[str, list[Any]] = {protocol: [] for protocol in PROTOCOLS}
    for column, query in enumerate(truth.queries):
        places[order[:, column]] = np.arange(len(order))
        for protocol, kinds in truth.protocols.items():
            right, junk = (np.concatenate([query.answers[k] for k in kind]) for kind in kinds)
            found[protocol].append(without_junk(places[right], places[junk]))
    return {protocol: mean(measure(found[protocol])["AP"]) for protocol in PROTOCOLS}


def reading(folder: Path, truth_file: Path) -> dict[str, float]:
    """Copy the file's rows into memory a chunk at a time, and do nothing with them."""
    rows = np.load(folder / "distractors.npy", mmap_mode="r")
    chunk = np.empty((CHUNK, DIM), np.float32)
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        np.copyto(chunk[: len(some)], some)
    return dict.fromkeys(PROTOCOLS, float("nan"))


SIDES: dict[str, Callable[[Path, Path], dict[str, float]]] = {
    "ours": ours,
    "numpy": by_numpy,
    "numpy lean": lambda folder, truth: by_numpy(folder, truth, lean=True),
    "numpy float64": in_double_precision,
    "gpu": lambda folder, truth: ours(folder, truth, "cuda"),
    "reading": reading,
}

PLAIN = ("ours", "numpy", "numpy lean", "numpy float64")


def run_side(name: str, folder: Path, truth_file: Path) -> dict[str, Any]:
    """Run one side here and now, in a process that has done nothing else."""
    before = own_memory()
    with PeakMemory(every=0.01) as peak:
        if name == "gpu":  # starting one takes seconds, whatever is evaluated then
            import torch

            torch.zeros(1, device="cuda")
        start = time.perf_counter()
        means = SIDES[name](folder, truth_file)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "MiB": (peak.bytes - before) / 2**20, "mAP": means}


def warm(path: Path) -> None:
    """Read a file once, so that no side pays for the disk."""
    with path.open("rb", buffering=0) as file:
        while file.read(2**24):
            pass


def main() -> None:
    """Generate, run every side, print a table and what it means for the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="for the generated files")
    parser.add_argument("--rows", type=int, default=MILLION)
    parser.add_argument("--ground-truth", type=Path, default=TRUTH)
    parser.add_argument("--repeat", type=int, default=1, help="the fastest counts")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side, options.folder, options.ground_truth)))
        return
    generate(options.folder, options.ground_truth, options.rows)
    os.sync()
    found: dict[str, dict[str, Any]] = {}
    print(f"{'':14} {'seconds':>8} {'MiB':>8}   {'mAP E/M/H'}")
    for name in ("gpu", "reading") if options.gpu else PLAIN:
        for _ in range(options.repeat):
            warm(options.folder / "distractors.npy")
            arguments = ["--side", name, "--folder", options.folder, "--ground-truth"]
            command = [sys.executable, __file__, *map(str, [*arguments, options.ground_truth])]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            result = json.loads(done.stdout)
            if name not in found or result["seconds"] < found[name]["seconds"]:
                found[name] = result
        row = found[name]
        means = " ".join(f"{100 * value:.6f}" for value in row["mAP"].values())
        print(f"{name:14} {row['seconds']:>8.2f} {row['MiB']:>8.0f}   {means}", flush=True)
    mine = found.get("ours", {})
    for name in () if options.gpu else PLAIN[1:]:
        other = found[name]
        apart = max(abs(mine["mAP"][p] - other["mAP"][p]) for p in PROTOCOLS)
        print(
            f"{name}: {other['seconds'] / mine['seconds']:.1f} times the time and "
            f"{other['MiB'] / mine['MiB']:.1f} times the memory of ours; mAP (0 to 1) differs by "
            f"{apart:.1e}"
        )
    if options.json:
        result = {"machine": machine(), "rows": options.rows, "sides": found}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
