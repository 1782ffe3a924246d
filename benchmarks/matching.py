"""Match photos whose homographies are known, and measure how well each descriptor finds them.

    PYTHONPATH=src python benchmarks/matching.py --sequences affine --out matching.json \
        --descriptor rootsift --descriptor orb --descriptor ours=net.safetensors \
        --descriptor ours,demo=net.safetensors --descriptor ours,400=net.safetensors

The first photo of every sequence is matched with each other one. A network's name may end in
`,demo`: its patches are then cut as in the published demo; or in a backend that runs it, such as
`ours,openvino-int8=net.safetensors`. A name that ends in a number has so many keypoints at most, in
place of `--keypoints`. SIFT, RootSIFT and networks see the same keypoints.
The corner error is the mean distance of the first photo's corners from where the true homography
takes them, in pixels of the second photo; a pair without a matrix counts as infinitely wrong. A
pair's time is that of the features of two photos and of matching them; descriptors take turns,
photo by photo.
"""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.machine import machine
from numpy.typing import NDArray

from solar.datasets.patches.hpatches_cut import PhotoSequence, read_sequences
from solar.describe.cpu.backends import BACKENDS
from solar.images.opencv import opencv
from solar.local.features import Frames, LocalFeatures, LocalModel, local_features, local_model
from solar.matching.match import Matches, match_features

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


@dataclass
class Measured:
    """A descriptor, and what it has come to so far."""

    model: LocalModel
    frames: Frames
    settings: dict[str, Any]
    photos: list[tuple[float, float]] = field(default_factory=list)
    """Seconds of clock and processor for the features of each photo."""
    matched: list[tuple[float, float]] = field(default_factory=list)
    """The same for matching each pair."""
    keypoints: int = 0
    pairs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def find(self, photo: Path) -> LocalFeatures:
        """The features of a photo, by the clock."""
        with timed(self.photos):
            found = local_features(photo, self.model, frames=self.frames, **self.settings)
        self.keypoints += len(found)
        return found

    def match(self, a: LocalFeatures, b: LocalFeatures) -> Matches:
        """The matches of a pair, by the clock."""
        with timed(self.matched):
            return match_features(a, b)

    def figures(self) -> dict[str, Any]:
        """All of it together."""
        every = [pair for own in self.pairs.values() for pair in own]
        errors = np.array(
            [np.inf if p["corner_error"] is None else p["corner_error"] for p in every]
        )
        matches, right = (sum(pair[what] for pair in every) for what in ("matches", "right"))
        photos, pairs = (np.mean(times, axis=0) for times in (self.photos, self.matched))
        clock, processor = 1000 * (2 * photos + pairs)
        return {
            "pairs": len(every),
            "median_corner_error": float(np.median(errors)),
            **{f"within_{limit}": int((errors <= limit).sum()) for limit in (1, 3, 5)},
            "matches": matches / len(every),
            "right_matches": right / len(every),
            "right_percent": 100 * right / max(matches, 1),
            "inliers": sum(pair["inliers"] for pair in every) / len(every),
            "processor_ms_a_photo": 1000 * photos[1],
            "processor_ms_a_pair": processor,
            "ms_a_pair": clock,
            "keypoints_a_photo": self.keypoints / len(self.photos),
            "sequences": self.pairs,
        }


@contextmanager
def timed(times: list[tuple[float, float]]) -> Iterator[None]:
    """Note the seconds that a block takes, of clock and processor."""
    start = time.perf_counter(), time.process_time()
    yield
    times.append((time.perf_counter() - start[0], time.process_time() - start[1]))


def measure(sequence: PhotoSequence, descriptors: list[Measured]) -> None:
    """Match the pairs of a sequence with all descriptors, in turn for every photo and pair."""
    reference = [one.find(sequence.photos[0]) for one in descriptors]
    for photo, truth in zip(sequence.photos[1:], sequence.homographies[1:], strict=True):
        for one, first in zip(descriptors, reference, strict=True):
            found = one.match(first, one.find(photo))
            own = one.pairs.setdefault(sequence.name, [])
            own.append(pair_figures(found, truth, first.shape))


def main() -> None:
    """Measure all descriptors side by side, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=Path, required=True, help="folders with H_1_2, …")
    parser.add_argument("--descriptor", action="append", required=True, metavar="[NAME=]MODEL")
    parser.add_argument("--keypoints", type=int, default=2048)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1, help="of torch and of OpenCV")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    opencv().setNumThreads(arguments.threads)
    settings = {"keypoints": arguments.keypoints, "size": arguments.size}
    descriptors = {}
    for given in arguments.descriptor:
        name, equals, model = given.partition("=")
        ending = name.rpartition(",")[2]
        frames: Frames = "demo" if ending == "demo" else "wide"
        own = {"keypoints": int(ending)} if ending.isdecimal() else {}
        backend = ending if ending in BACKENDS else "torch"
        descriptors[name] = Measured(
            local_model(model if equals else name, backend), frames, {**settings, **own}
        )
    sequences = read_sequences(arguments.sequences)
    for one in descriptors.values():  # the first call of anything is slow
        local_features(sequences[0].photos[0], one.model, keypoints=64)
    for sequence in sequences:
        measure(sequence, list(descriptors.values()))
        print(sequence.name, flush=True)
    figures = {name: one.figures() for name, one in descriptors.items()}
    results = {
        "machine": machine(),
        "opencv": opencv().__version__,
        **settings,
        "threads": arguments.threads,
        "descriptors": figures,
    }
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    for name, found in figures.items():
        shown = {key: value for key, value in found.items() if key != "sequences"}
        print(name, json.dumps(shown, default=str), flush=True)


if __name__ == "__main__":
    main()
