"""Pairs for structure from motion: how long choosing takes, and what a mapper makes of the pairs.

    python benchmarks/pairs.py --vectors photos.npy [--rows 118287] [--json results.json]
    python benchmarks/pairs.py --scene lund=photos/lund --scene … [--json results.json]

With `--vectors` (.npy files of embeddings of real photos) it repeats these with noise
until there are enough rows, makes an index of them, and chooses the top-20 pairs, in a process of
its own. On a size that fits (`--dense`) the same is compared with the whole matrix of similarities,
which the usual tool makes. Memory is the most that a process held, mapped files included.

With `--scene` it reconstructs folders of photos with COLMAP's incremental mapper, from all pairs
and from the `--k` most similar ones of every photo alone, with every kind of local features.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from lib.machine import machine
from lib.memory import most_memory

K = 20
NOISE = 0.5  # length of the noise that is added to a unit vector
FEATURES = ("rootsift", "solar-local-345")
SIZE, KEYPOINTS = 1600, 4096
Array = npt.NDArray[np.float32]


def main() -> None:
    """Measure what is asked for, print it as tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=Path, nargs="+", default=[])
    parser.add_argument("--rows", type=int, default=118_287)
    parser.add_argument("--dense", type=int, default=20_000)
    parser.add_argument("--scene", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--k", type=int, nargs="+", default=[5])
    parser.add_argument("--features", nargs="+", default=FEATURES)
    parser.add_argument("--folder", type=Path, help="Where to put the data; a temporary folder.")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        method, source = arguments.one
        print(json.dumps(METHODS[method](Path(source))))
        return
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        if arguments.vectors:
            sizes = (arguments.dense, arguments.rows)
            result["choosing"] = choosing(Path(scratch), arguments.vectors, *sizes)
            show_choosing(result["choosing"])
        if arguments.scene:
            named = dict(one.split("=", 1) for one in arguments.scene)
            result["scenes"] = {
                name: scene(Path(folder), Path(scratch, name), arguments.k, arguments.features)
                for name, folder in named.items()
            }
            show_scenes(result["scenes"])
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")


# Choosing


def choosing(folder: Path, files: list[Path], dense: int, rows: int) -> dict[str, Any]:
    """Time and memory of the top pairs, the dense way and ours."""
    from solar.evaluation.embeddings import read_vectors
    from solar.index import Index

    real = np.concatenate([np.asarray(read_vectors(file), np.float32) for file in files])
    result: dict[str, Any] = {"real": len(real), "dim": real.shape[1], "k": K}
    for count in (dense, rows):
        vectors = np.lib.format.open_memmap(
            folder / f"{count}.npy", "w+", dtype=np.float32, shape=(count, real.shape[1])
        )
        for start, block in repeated(real, count):
            vectors[start : start + len(block)] = block
        vectors.flush()
        names = [f"{row:06}.jpg" for row in range(count)]
        Index.create(folder / f"{count}.solar", vectors, names).close()
    for name, method, source in (
        ("dense", "dense", f"{dense}.npy"),
        ("blocks", "blocks", f"{dense}.solar"),
        ("all", "blocks", f"{rows}.solar"),
    ):
        command = [sys.executable, __file__, "--one", method, str(folder / source)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        result[name] = json.loads(done.stdout)
    return result


def repeated(real: Array, count: int) -> Iterator[tuple[int, Array]]:
    """The real rows over and over, with noise from the second time on; unit norm."""
    dice = np.random.default_rng(0)
    for start in range(0, count, len(real)):
        block = real[: count - start]
        if start:
            noise = dice.standard_normal(block.shape, dtype=np.float32)
            block = block + NOISE * noise / np.sqrt(np.float32(block.shape[1]))
        yield start, np.asarray(block / np.linalg.norm(block, axis=1, keepdims=True), np.float32)


def dense_pairs(file: Path) -> dict[str, Any]:
    """What one would write: all similarities, then the best of every row."""
    started = time.perf_counter()
    vectors = np.load(file)
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -np.inf)
    best = np.argpartition(-similar, K, axis=1)[:, :K]
    pairs = {(min(a, b), max(a, b)) for a, row in enumerate(best.tolist()) for b in row}
    return measured(started, len(vectors), pairs)


def block_pairs(index: Path) -> dict[str, Any]:
    """Ours."""
    import solar

    started = time.perf_counter()
    pairs = {(int(a[:6]), int(b[:6])) for a, b in solar.pairs(index, k=K)}
    ordered = {(min(pair), max(pair)) for pair in pairs}
    assert len(ordered) == len(pairs)
    return measured(started, int(index.stem), ordered)


METHODS = {"dense": dense_pairs, "blocks": block_pairs}


def measured(started: float, rows: int, pairs: set[tuple[int, int]]) -> dict[str, Any]:
    """Seconds since then, and the most memory so far."""
    total = sum(a * 1_000_003 + b for a, b in pairs) % 2**61  # equal for equal pairs
    return {
        "rows": rows,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time(), 1),
        "MiB": round(most_memory() / 2**20),
        "pairs": len(pairs),
        "checksum": total,
    }


def show_choosing(result: dict[str, Any]) -> None:
    """A table for the documentation."""
    print(
        f"\n{result['real']} descriptors of real photos, {result['dim']} numbers, k = {result['k']}"
    )
    print("\n| | photos | seconds | memory, MiB | pairs |\n|---|---:|---:|---:|---:|")
    for name in ("dense", "blocks", "all"):
        one = result[name]
        print(
            f"| {name} | {one['rows']:,} | {one['seconds']} | {one['MiB']:,} | {one['pairs']:,} |"
        )
    print(f"same pairs: {result['dense']['checksum'] == result['blocks']['checksum']}")


# Reconstructing


def scene(photos: Path, work: Path, ks: list[int], kinds: list[str]) -> list[dict[str, Any]]:
    """Reconstructions of a folder of photos."""
    import solar
    from solar.index.embeddings import described
    from solar.ranking.verify import VerifySettings, verifier_of

    collection = described(photos, work)
    every = list(combinations(collection.names, 2))
    chosen = {f"-k {k}": list(solar.pairs(collection, k=k, work=work)) for k in ks}
    rows = []
    for kind in kinds:
        settings = VerifySettings(model=kind, size=SIZE, keypoints=KEYPOINTS)
        verifier = verifier_of(collection.roots, collection.local, settings)
        for name, pairs in {**chosen, "all": every}.items():
            found = one_scene(photos, pairs, verifier, work / f"{kind} {name}")
            facts = {"features": kind, "chosen": name, "photos": len(collection)}
            rows.append({**facts, "pairs": len(pairs), **found})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def one_scene(photos: Path, pairs: list[Any], verifier: Any, folder: Path) -> dict[str, Any]:
    """What the mapper makes of some pairs."""
    from solar.sfm.colmap import reconstruct, write_database

    started = time.perf_counter()
    counts = write_database(folder / "photos.db", pairs, verifier)
    matched = time.perf_counter()
    found = reconstruct(folder / "photos.db", photos, folder)
    return {
        "verified": counts.verified,
        "matching_s": round(matched - started, 1),
        "mapping_s": round(time.perf_counter() - matched, 1),
        **asdict(found),
    }


def show_scenes(scenes: dict[str, list[dict[str, Any]]]) -> None:
    """A table for the documentation."""
    print("\n| scene | features | pairs | verified | registered | points | error, px |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, rows in scenes.items():
        for one in rows:
            pairs = f"{one['pairs']} ({one['chosen']}) | {one['verified']}"
            found = f"{one['images']} of {one['photos']} | {one['points']:,} | {one['error']:.2f}"
            print(f"| {name} | {one['features']} | {pairs} | {found} |")


if __name__ == "__main__":
    main()
