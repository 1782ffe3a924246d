"""How long `solar index sync` takes when a few of many photos have changed.

    python benchmarks/sync_many.py [--photos 100000] [--changed 10] [--json sync_many.json]

Makes a folder of so many small files and an index that knows them, with random vectors. Then a few
files become other photos, which are drawn, and as many are added, renamed and deleted. `scan` is
the look at the folder, `plan` is what tells the changes from it, `sync` is the whole command,
which does both and also describes the photos that are new, with the bundled solar-r18 on the CPU;
`again` is the same when nothing has changed.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from lib.machine import machine
from PIL import Image

from solar.files import file_digest
from solar.images import Roots, Stamp, scan_roots
from solar.index import Index
from solar.index.ingest import plan
from solar.index.sync import sync
from solar.models import fingerprint, retrieval_model
from solar.storage.types import DescriptorSpec, Photo
from solar.weights import DEFAULT

T = TypeVar("T")


def fill(folder: Path, count: int) -> list[Photo]:
    """Files in folders of 1,000, and what an index would know of them."""
    photos = []
    for number in range(count):
        file = folder / f"{number // 1000:04}" / f"{number:07}.jpg"
        if number % 1000 == 0:
            file.parent.mkdir(parents=True)
        file.write_bytes(b"photo %07d" % number)
        seen = file.stat()
        stamp = Stamp(seen.st_size, seen.st_mtime_ns, file_digest(file))
        photos.append(Photo(file.relative_to(folder).as_posix(), 96, 72, stamp=stamp))
    return photos


def make_index(address: Path, folder: Path, photos: list[Photo]) -> None:
    """An index of photos that were never described: its vectors are random."""
    net = retrieval_model(DEFAULT)
    vectors = np.random.default_rng(0).standard_normal((len(photos), net.dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    how = {"size": net.config.size, "scales": list(net.config.scales), "orient": True}
    how |= {"mode": "exact", "backend": "torch"}
    spec = DescriptorSpec(net.dim, DEFAULT, fingerprint(net), how)
    Index.create(address, vectors, photos, spec=spec, roots=Roots.at(folder)).close()


def change(folder: Path, photos: list[Photo], count: int) -> None:
    """Change, rename and delete some photos each, and add as many."""
    draw = np.random.default_rng(1)
    for number in range(count):
        changed, renamed, deleted = (folder / one.path for one in photos[3 * number :][:3])
        for file in (changed, folder / f"new-{number}.jpg"):
            Image.fromarray(draw.integers(0, 255, (72, 96, 3), np.uint8)).save(file)
        renamed.rename(folder / f"renamed-{number}.jpg")
        deleted.unlink()


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds that it took, and what it gave."""
    start = perf_counter()
    result = work()
    return round(perf_counter() - start, 2), result


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--photos", type=int, default=100_000)
    parser.add_argument("--changed", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(), "photos": options.photos}
    with tempfile.TemporaryDirectory(prefix="solar-sync-") as place:
        folder, address = Path(place, "photos"), Path(place, "photos.solar")
        photos = fill(folder, options.photos)
        make_index(address, folder, photos)
        change(folder, photos, options.changed)
        seconds: dict[str, float] = {}
        with Index.open(address) as index:
            known = index.engine.stamps()
            seconds["scan"], seen = timed(lambda: scan_roots(index.roots, known))
            seconds["plan"], _ = timed(lambda: plan(index, seen, known))
        seconds["sync"], changes = timed(lambda: sync(address, device="cpu"))
        seconds["again"], nothing = timed(lambda: sync(address, device="cpu"))
        found |= {"changes": str(changes), "again": str(nothing), "seconds": seconds}
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    if options.json:
        options.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
