"""Match photos whose homographies are known, and measure how well each descriptor finds them.

    PYTHONPATH=src python benchmarks/matching.py --sequences affine --out matching.json \
        --descriptor sift --descriptor rootsift --descriptor ours=net.safetensors \
        --descriptor ours,demo=net.safetensors

The first photo of every sequence is matched with each other one. A network's name may end in
`,demo`: its patches are then cut as in the published demo. All see the same keypoints. The corner
error is the mean distance of the first photo's corners from where the true homography takes them,
in pixels of the second photo; a pair without a matrix counts as infinitely wrong.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.machine import machine
from numpy.typing import NDArray

from solar.datasets.sequences import PhotoSequence, read_sequences
from solar.describe.local import Frames, LocalFeatures, local_features, local_model
from solar.search.matching import Matches, match_features

RIGHT = 3.0  # pixels from where the true homography puts a match


def moved(matrix: NDArray[Any], points: NDArray[Any]) -> NDArray[np.float64]:
    """Points (n, 2) under a homography."""
    homogeneous = np.c_[points, np.ones(len(points))] @ matrix.T
    return np.asarray(homogeneous[:, :2] / homogeneous[:, 2:])


def pair_figures(
    found: Matches, truth: NDArray[np.float64], shape: tuple[int, int]
) -> dict[str, Any]:
    """What one pair of photos comes to."""
    height, width = shape
    corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]])
    error = None
    if found.matrix is not None:
        away = moved(found.matrix, corners) - moved(truth, corners)
        error = float(np.linalg.norm(away, axis=1).mean())
    a, b = found.points_a[found.pairs[:, 0]], found.points_b[found.pairs[:, 1]]
    right = np.linalg.norm(moved(truth, a) - b, axis=1) < RIGHT
    return {
        "matches": len(found.pairs),
        "right": int(right.sum()),
        "inliers": int(found.inliers.sum()),
        "corner_error": error,
    }


def measure(
    sequences: tuple[PhotoSequence, ...], model: str, frames: Frames, settings: dict[str, Any]
) -> dict[str, Any]:
    """One descriptor on all pairs."""
    describer = local_model(model)
    pairs: dict[str, list[dict[str, Any]]] = {}
    seconds, keypoints = 0.0, 0
    for sequence in sequences:
        features: list[LocalFeatures] = []
        for photo in sequence.photos:
            start = time.process_time()
            features.append(local_features(photo, describer, frames=frames, **settings))
            seconds += time.process_time() - start
            keypoints += len(features[-1])
        reference, *others = features
        pairs[sequence.name] = [
            pair_figures(match_features(reference, other), truth, reference.shape)
            for other, truth in zip(others, sequence.homographies[1:], strict=True)
        ]
    every = [pair for own in pairs.values() for pair in own]
    errors = np.array([np.inf if p["corner_error"] is None else p["corner_error"] for p in every])
    matches, right = (sum(pair[what] for pair in every) for what in ("matches", "right"))
    return {
        "pairs": len(every),
        "median_corner_error": float(np.median(errors)),
        **{f"within_{limit}": int((errors <= limit).sum()) for limit in (1, 3, 5)},
        "matches": matches / len(every),
        "right_matches": right / len(every),
        "right_percent": 100 * right / max(matches, 1),
        "processor_ms_a_photo": 1000 * seconds / sum(len(s.photos) for s in sequences),
        "keypoints_a_photo": keypoints / sum(len(s.photos) for s in sequences),
        "sequences": pairs,
    }


def main() -> None:
    """Measure every descriptor, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=Path, required=True, help="folders with H_1_2, …")
    parser.add_argument("--descriptor", action="append", required=True, metavar="[NAME=]MODEL")
    parser.add_argument("--keypoints", type=int, default=2048)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # so that processor time is comparable
    settings = {"keypoints": arguments.keypoints, "size": arguments.size}
    sequences = read_sequences(arguments.sequences)
    results: dict[str, Any] = {"machine": machine(), **settings, "descriptors": {}}
    for given in arguments.descriptor:
        name, equals, model = given.partition("=")
        frames: Frames = "demo" if name.endswith(",demo") else "wide"
        found = measure(sequences, model if equals else name, frames, settings)
        results["descriptors"][name] = found
        shown = {key: value for key, value in found.items() if key != "sequences"}
        print(name, json.dumps(shown, default=str), flush=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
