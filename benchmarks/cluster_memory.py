"""What a Milvus cluster needs to hold so many photos: `python benchmarks/cluster_memory.py`.

Nothing is measured here. The numbers follow from how each index keeps a vector.
"""

import argparse
import math
from collections.abc import Callable

GIB = 2**30
SEGMENT = 2**29  # bytes of raw vectors in one segment: 512 MiB in Milvus 2.3, more in newer ones
NLIST = 1024  # cells of an IVF index in each segment
M = 16  # links of a graph in each direction
KNOWN = 256  # bytes of path, tags and the rest beside a vector: an assumption, look at your own
FILLED = 0.7  # of a query node's memory; the rest is for growing segments, merging and searching


def graph() -> float:
    """Bytes of links: 2 M of four bytes at the bottom, M on each of 1 / (M - 1) upper layers."""
    return 4 * (2 * M + M / (M - 1))


def cells(dim: int) -> float:
    """Bytes of an IVF index besides codes: a number, and a share of the segment's centroids."""
    return 8 + NLIST * 4 * dim / (SEGMENT / (4 * dim))


def codebook(dim: int) -> float:
    """A photo's share of its segment's codebook: 256 entries for every piece of a vector."""
    return 256 * 4 * dim / (SEGMENT / (4 * dim))


INDEXES: dict[str, Callable[[int], float]] = {
    "FLAT (float32)": lambda d: 4 * d,
    "HNSW (float32)": lambda d: 4 * d + graph(),
    "HNSW_SQ, sq_type=FP16": lambda d: 2 * d + graph(),
    "HNSW_SQ, sq_type=SQ8": lambda d: d + graph(),
    "IVF_SQ8": lambda d: d + cells(d),
    "IVF_PQ, m = dim / 8": lambda d: d / 8 + cells(d) + codebook(d),
}


def table(photos: int, dim: int, replicas: int) -> str:
    """A row an index, in Markdown."""
    lines = [
        f"| index | bytes per photo | one replica | query nodes of 64 GiB, × {replicas} | "
        f"query nodes of 128 GiB, × {replicas} |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, size in INDEXES.items():
        each = size(dim) + KNOWN
        total = photos * each / GIB
        small, large = (replicas * math.ceil(total / (FILLED * node)) for node in (64, 128))
        lines.append(f"| {name} | {each:,.0f} | {total:,.0f} GiB | {small} | {large} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table for a number of photos."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=100_000_000)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--replicas", type=int, default=2)
    given = parser.parse_args()
    print(table(given.photos, given.dim, given.replicas))


if __name__ == "__main__":
    main()
