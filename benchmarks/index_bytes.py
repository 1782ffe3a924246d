"""How many bytes a photo takes in an index, by kind of compression: made and looked at.

    python benchmarks/index_bytes.py [--json benchmarks/results/index_bytes.json]

Makes two indices of each kind, of random vectors and of different length. What the longer one has
more, divided by the photos it has more, is what a photo takes: codebooks and other fixed parts drop
out. Sizes do not depend on the machine. `metadata` is the rest beside vectors and codes, with
paths of 26 letters, sizes and times and no tags.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine

from solar.index import Index
from solar.storage.folder import COMPRESSIONS
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


def main() -> None:
    """Measure every kind, print and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
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
