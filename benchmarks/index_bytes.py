"""How many bytes a photo takes in an index, by kind of compression: made and looked at.

    python benchmarks/index_bytes.py [--json benchmarks/results/index_bytes.json]
    python benchmarks/index_bytes.py --written [--json benchmarks/results/index_bytes_written.json]

Makes two indices of each kind, of random vectors and of different length. What the longer one has
more, divided by the photos it has more, is what a photo takes: codebooks and other fixed parts drop
out. Sizes do not depend on the machine. `metadata` is the rest beside vectors and codes, with
paths of 26 letters, sizes and times and no tags.

With `--written` it counts what a build writes, by `/proc/self/io` of a process of its own, for
generated photos and networks of 512 and 2048 numbers: `wchar`, all bytes that the process passed to
the system, and `write_bytes`, those that it has sent to the disk, each divided by the bytes of the
finished index. Pictures are drawn once and linked, so that only reading and describing takes time.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine

from solar.index import Index
from solar.storage.folder_engine import COMPRESSIONS
from solar.storage.types import Photo

SHORT, LONG = 4096, 8192
DIMS = (512, 2048)


def bytes_of(folder: Path, rows: int, dim: int, kind: str) -> dict[str, int]:
    """Bytes of vectors, codes and metadata of a new index."""
    dice = np.random.default_rng(0)
    vectors = dice.standard_normal((rows, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    photos = [
        Photo(f"2019/rome/photo-{row:07}.jpg", 1024, 768, taken="2019-07-14T18:30:00")
        for row in range(rows)
    ]
    with Index.create(folder / f"{kind}-{dim}-{rows}", vectors, photos, compress=kind) as index:
        facts = index.info()
    parts = {"vectors": facts["bytes_of_vectors"], "codes": facts["bytes_of_codes"]}
    return {**parts, "metadata": facts["bytes"] - sum(parts.values())}


def a_photo(folder: Path, dim: int, kind: str) -> dict[str, float]:
    """Bytes that one more photo takes, by part."""
    short, long = (bytes_of(folder, rows, dim, kind) for rows in (SHORT, LONG))
    return {part: round((long[part] - short[part]) / (LONG - SHORT), 1) for part in long}


def build_here(folder: Path, dim: int) -> None:
    """Build an index of a folder and print what was written, and how large the index is."""
    import torch

    from solar.images import find_photos
    from solar.index.build import fill
    from solar.models import RetrievalConfig, RetrievalNet

    torch.manual_seed(0)
    net = RetrievalNet(RetrievalConfig("resnet18", dim=dim, size=64, scales=(1.0,)))
    photos, place = find_photos(folder), folder.parent / f"{folder.name}.solar"
    before = written()
    with fill(place, photos, model=net) as index:
        count = len(index)
    after = written()
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    facts = {name: after[name] - before[name] for name in before}
    print(json.dumps({"photos": count, "index": size, **facts}))


def written() -> dict[str, int]:
    """What this process has written so far."""
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    found = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    return {name: found[name] for name in ("wchar", "write_bytes")}


def measure_written(count: int) -> dict[str, Any]:
    """What a build of so many photos writes, as multiples of its size."""
    from solar.demo import toy

    # Not in memory: a file system there sends nothing to a disk.
    with tempfile.TemporaryDirectory(prefix="solar-bytes-", dir=Path.cwd()) as scratch:
        made = toy.write(Path(scratch, "made"), landmarks=20, views=5, size=(96, 72))
        folder = Path(scratch, "photos")
        folder.mkdir()
        for number in range(count):
            os.link(made[number % len(made)], folder / f"{number:06}.jpg")
        found: dict[str, Any] = {}
        for dim in DIMS:
            command = [sys.executable, __file__, "--one", str(folder), "--dim", str(dim)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            told = found[str(dim)] = json.loads(done.stdout)
            for name in ("wchar", "write_bytes"):
                told[f"{name}_times"] = round(told[name] / told["index"], 3)
            shutil.rmtree(folder.parent / f"{folder.name}.solar")
    return found


def main() -> None:
    """Measure every kind, print and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--written", action="store_true", help="What a build writes.")
    parser.add_argument("--photos", type=int, default=2000)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--dim", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        build_here(arguments.one, arguments.dim)
        return
    if arguments.written:
        result = {"machine": machine(), **measure_written(arguments.photos)}
        print(json.dumps(result, indent=1))
        if arguments.json:
            arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        return
    found: dict[str, Any] = {"machine": machine(), "rows": [SHORT, LONG], "bytes_a_photo": {}}
    for dim in DIMS:
        sizes = found["bytes_a_photo"][str(dim)] = {}
        for kind in COMPRESSIONS:
            with tempfile.TemporaryDirectory(prefix="solar-bytes-") as folder:
                sizes[kind] = a_photo(Path(folder), dim, kind)
            print(dim, kind, sizes[kind], flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
