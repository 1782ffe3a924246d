"""One photo on a CPU: every backend against a plain eager loop, in the same run.

    python benchmarks/describe_cpu.py --photos FOLDER [--model M] [--json results.json]

ResNet-101 with attention after conv4_x and conv5_x, 1024×768, three scales, one photo, two
threads. Rounds take turns among the backends and the fastest of each counts: other work on the
machine only ever adds time. Cosines are the smallest over photos that the int8 ranges were not
taken from. Without --model the weights are drawn at random, and all photos look alike to such a
network: the column `others`, the mean cosine between different photos, tells how little a cosine
near one then means; `centred` is the smallest cosine after their mean descriptor is subtracted.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.machine import machine
from PIL import Image
from torch import Tensor

from solar.describe.cpu.backends import BACKENDS, open_backend
from solar.models import RetrievalConfig, RetrievalNet, retrieval_model

TARGETS = {"torch": 1.7, "float32": 2.2, "int8": 4.0}


def drawn(backbone: str) -> RetrievalNet:
    """A network with random weights whose activations neither vanish nor explode."""
    random = torch.Generator().manual_seed(0)
    model = RetrievalNet(RetrievalConfig(backbone, attention={4: 4, 5: 2}))
    for name, tensor in model.state_dict().items():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5, generator=random)
        elif name.endswith(("running_mean", "bias")):
            tensor.normal_(0, 0.1, generator=random)
        elif tensor.dim() > 1:
            tensor.normal_(0, (1.5 / tensor[0].numel()) ** 0.5, generator=random)
        elif name.endswith("weight"):
            tensor.uniform_(0.4, 0.8, generator=random)
    return model.eval()


def photos(folder: Path | None, size: tuple[int, int], count: int) -> list[Image.Image]:
    """Photos of one size, generated ones if there is no folder."""
    if folder is None:
        from solar.demo import toy

        images = [toy.landmark(number, 0) for number in range(count)]
    else:
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".jpg")
        step = max(1, len(paths) // count)
        images = [Image.open(path).convert("RGB") for path in paths[::step][:count]]
    return [image.resize(size, Image.Resampling.LANCZOS) for image in images]


def fastest(
    runs: dict[str, Callable[[Tensor], Tensor]], photo: Tensor, rounds: int
) -> dict[str, list[float]]:
    """Seconds of every round, by name; the first round, which warms up, is not kept."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run(photo)
            if number:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def cosines(ours: Tensor, theirs: Tensor) -> tuple[float, float]:
    """The smallest cosine, as it is and after subtracting the mean of the true descriptors."""
    mean = theirs.mean(dim=0)
    plain = torch.cosine_similarity(ours, theirs).min()
    return float(plain), float(torch.cosine_similarity(ours - mean, theirs - mean).min())


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, help="a folder of .jpg; generated ones without it")
    parser.add_argument("--model", help="a network that describes photos; drawn without it")
    parser.add_argument("--backbone", default="resnet101", help="of a drawn network")
    parser.add_argument("--size", default="1024x768")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", type=int, default=4, help="photos for the cosines")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = (
        retrieval_model(arguments.model, device="cpu")
        if arguments.model
        else drawn(arguments.backbone)
    )
    width, height = (int(side) for side in arguments.size.split("x"))
    images = photos(arguments.photos, (width, height), 16 + arguments.check)
    calibration, checks = images[: -arguments.check], images[-arguments.check :]

    runs: dict[str, Callable[[Tensor], Tensor]] = {"eager": model.multiscale}
    for name in arguments.backends.split(","):
        backend = open_backend(model, name, calibration=calibration)
        if backend.name == name:
            runs[name] = partial(model.multiscale, forward=backend)
    batches = [model.normalise(torch.from_numpy(np.array(image))[None]) for image in checks]
    with torch.inference_mode():
        seconds = fastest(runs, batches[0], arguments.rounds)
        vectors = {name: torch.cat([run(batch) for batch in batches]) for name, run in runs.items()}
    truth = vectors["eager"]
    count = len(truth)
    others = float(((truth @ truth.T).sum() - count) / (count * (count - 1))) if count > 1 else 1.0

    rows: list[dict[str, Any]] = []
    print(
        f"{'':18}{'fastest s':>10}{'median s':>10}{'ratio':>7}{'target':>8}{'cosine':>10}", end=""
    )
    print(f"{'centred':>9}   others {others:.4f}")
    for name, times in seconds.items():
        target = TARGETS.get(name, TARGETS["int8" if name.endswith("int8") else "float32"])
        cosine, centred = cosines(vectors[name], truth)
        row = {
            "backend": name,
            "fastest": min(times),
            "median": float(np.median(times)),
            "ratio": min(seconds["eager"]) / min(times),
            "target": None if name == "eager" else target,
            "cosine": cosine,
            "centred": centred,
        }
        rows.append(row)
        shown = "–" if name == "eager" else f"{target:.1f}"
        print(
            f"{name:18}{row['fastest']:>10.2f}{row['median']:>10.2f}{row['ratio']:>7.2f}"
            f"{shown:>8}{cosine:>10.6f}{centred:>9.4f}"
        )
    if arguments.json:
        given = {k: v.name if isinstance(v, Path) else str(v) for k, v in vars(arguments).items()}
        settings = {key: value for key, value in given.items() if key != "json"}
        result = {"machine": machine(), "settings": settings, "others": others, "rows": rows}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
