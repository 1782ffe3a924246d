"""How long it takes to arrange a collection on a map.

Run it with `OMP_NUM_THREADS=1 python benchmarks/collection_map.py --photos 10000`.
"""

import argparse
import time

import numpy as np
from lib.machine import machine

from solar.show.collection_map import arrange, choose_method


def main() -> None:
    """Print seconds, and how often the nearest on the map shows the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--each", type=int, default=20, help="photos of each made-up landmark")
    options = parser.parse_args()
    chance = np.random.default_rng(0)
    landmarks = chance.standard_normal((max(1, options.photos // options.each), options.dim))
    labels = chance.integers(0, len(landmarks), options.photos)
    rows = landmarks[labels] + 0.8 * chance.standard_normal((options.photos, options.dim))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    wall, spent = time.perf_counter(), time.process_time()
    method = choose_method(options.photos)[0]
    points = arrange(lambda: [rows], len(rows), method)
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    print(machine())
    print(f"{options.photos} photos by {method}: ", end="")
    print(f"{spent:.1f} s of processor time, {wall:.1f} s in all")
    asked = chance.choice(options.photos, min(500, options.photos), replace=False)
    distance = ((points[asked, None] - points[None]) ** 2).sum(axis=2)
    distance[np.arange(len(asked)), asked] = np.inf
    same = labels[distance.argmin(axis=1)] == labels[asked]
    print(f"nearest on the map shows the same: {100 * same.mean():.1f} % of {len(asked)}")


if __name__ == "__main__":
    main()
