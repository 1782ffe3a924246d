"""Photos described on a CPU by every backend, a plain loop of torch and plain OpenVINO, in one run.

    python benchmarks/describe_cpu.py --photos FOLDER [--model M] [--json results.json]

Pixels in memory become embeddings, a photo at a time by all threads; seconds are of the processor,
of all threads together. "eager" is the network called in a loop; "plain" compiles the file of the
graph with OpenVINO's Python API, as one would without this package. Rounds take turns among all of
them and the fastest of each counts: other work on the machine only ever adds time. Cosines are the
smallest to eager, over photos that int8's ranges were not taken from. Without --model it is a
ResNet-101 with attention and random weights, to which all photos look alike: `others`, the mean
cosine between different photos, tells how little a cosine near one then means; `centred` is the
smallest cosine after their mean embedding is subtracted.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.machine import machine
from lib.networks import network
from lib.options import command
from PIL import Image

from solar.arrays import Pixels, Vectors
from solar.describe import Settings
from solar.describe.cpu.backends import BACKENDS
from solar.describe.cpu.graph import GRAPHS, graph_file
from solar.describe.network import Network, network_of
from solar.describe.pipeline import as_input, as_rows
from solar.describe.runtime import describer
from solar.images import Photos, find_photos, read_image
from solar.models.inference import inference

Run = Callable[[Pixels], Vectors]

SCALES = (2**-0.5, 1.0, 2**0.5)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=Path, required=True, help="a folder of photos")
    parser.add_argument("--model", help="a network that describes photos; drawn without it")
    parser.add_argument("--size", default="1024x768")
    parser.add_argument("--scales", type=float, nargs="+", default=SCALES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", type=int, default=4, help="photos for the cosines")
    parser.add_argument("--backends", nargs="+", default=[*BACKENDS, GRAPHS[0]])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    net = network_of(options.model or network({4: 4, 5: 2}, device="cpu"), device="cpu")
    photos = find_photos([options.photos])
    width, height = map(int, options.size.split("x"))
    examples = photos.select(range(16))  # int8 takes its ranges from these
    last = range(len(photos) - options.check, len(photos))
    images = [read_image(photos.read(number)) for number in last]
    checks = [
        np.asarray(image.resize((width, height), Image.Resampling.LANCZOS)) for image in images
    ]
    runs: dict[str, Run] = {"eager": eager(net, options.scales)}
    for name in options.backends:
        runs[name] = by(net, name, options.scales, examples)
        if name == GRAPHS[0]:
            runs["plain"] = plain(net, options.scales, options.threads)
    seconds = fastest(runs, checks[0], options.rounds)
    vectors = {name: np.stack([run(photo) for photo in checks]) for name, run in runs.items()}
    truth = vectors["eager"]
    count = len(truth)
    others = float(((truth @ truth.T).sum() - count) / (count * (count - 1))) if count > 1 else 1.0
    rows = []
    print(f"{'':18}{'ms':>8}{'median':>8}{'ratio':>7}{'cosine':>10}{'centred':>9}")
    for name, times in seconds.items():
        row: dict[str, Any] = {
            "backend": name,
            "fastest": min(times),
            "median": float(np.median(times)),
            "ratio": min(seconds["eager"]) / min(times),
            "cosine": cosine(vectors[name], truth),
            "centred": cosine(vectors[name] - truth.mean(0), truth - truth.mean(0)),
        }
        rows.append(row)
        print(
            f"{name:18}{1000 * row['fastest']:8.1f}{1000 * row['median']:8.1f}{row['ratio']:7.2f}"
            f"{row['cosine']:10.6f}{row['centred']:9.4f}"
        )
    if options.json:
        report: dict[str, Any] = {"machine": machine(), "command": command(), "size": options.size}
        report |= {"others": others, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def eager(net: Network, scales: list[float]) -> Run:
    """The network, called as it is."""

    def run(photo: Pixels) -> Vectors:
        with inference(net.net):
            pixels = net.net.normalise(torch.tensor(photo)[None])
            row: Vectors = as_rows(net.net.multiscale(pixels, scales))[0]
            return row

    return run


def by(net: Network, backend: str, scales: list[float], examples: Photos) -> Run:
    """A backend of this package."""
    settings = Settings.of(net, scales=tuple(scales), backend=backend)
    describe = describer(net, settings, examples, singly=True)
    return lambda photo: as_rows(describe(as_input([photo], describe)))[0]


def plain(net: Network, scales: list[float], threads: int) -> Run:
    """The file of the graph, compiled by OpenVINO alone."""
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads}
    compiled = openvino.Core().compile_model(graph_file(net, scales), "CPU", settings)
    return lambda photo: compiled(photo[None])[0][0]


def fastest(runs: dict[str, Run], photo: Pixels, rounds: int) -> dict[str, list[float]]:
    """Seconds of the processor of every round, by name, but for the first, which warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            began = time.process_time()
            run(photo)
            if number:
                seconds[name].append(time.process_time() - began)
    return seconds


def cosine(ours: Vectors, theirs: Vectors) -> float:
    """The smallest cosine between rows."""
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return float(((ours * theirs).sum(axis=1) / norms).min())


if __name__ == "__main__":
    main()
