"""How far descriptors of photos decoded fast are from those decoded exactly.

    python benchmarks/decode_cosine.py PHOTOS --network NETWORK [--size 320 256] [--json FILE]

NETWORK is a model that `solar.load` takes, or a TorchScript file giving a feature map, which is
then pooled by GeM. Only photos at least three times as large as the size asked for differ at all.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from lib.machine import machine
from torch import Tensor

from solar.images import find_photos, image_size, load
from solar.models import RetrievalConfig, RetrievalNet, retrieval_model
from solar.nn import GeM, l2_normalize

MODES: tuple[Literal["exact"], Literal["fast"]] = ("exact", "fast")


def describer(path: str) -> Callable[[Tensor], Tensor]:
    """Photos (1, h, w, 3) to descriptors at the network's scales."""
    if not path.endswith(".ts"):
        net = retrieval_model(path)
        return lambda pixels: net.multiscale(net.normalise(pixels))
    backbone = torch.jit.load(path).eval()  # type: ignore[no-untyped-call]
    pool, shell = GeM(), RetrievalNet(RetrievalConfig("resnet18", whitening=False))

    def describe(pixels: Tensor) -> Tensor:
        return shell.multiscale(
            shell.normalise(pixels), forward=lambda x: l2_normalize(pool(backbone(x)))
        )

    return describe


def main() -> None:
    """Describe every photo both ways and print the cosines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path, nargs="+")
    parser.add_argument("--network", required=True)
    parser.add_argument("--size", type=int, nargs="+", default=[320, 256])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    describe = describer(arguments.network)
    rows: list[dict[str, Any]] = []
    for size in arguments.size:
        cosines = []
        for folder in arguments.photos:
            photos = find_photos(folder)
            for number in range(len(photos)):
                source = photos.read(number)
                if max(image_size(source)) < 3 * size:
                    continue
                with torch.inference_mode():
                    exact, fast = (
                        describe(torch.from_numpy(load(source, size, mode=mode).pixels)[None])
                        for mode in MODES
                    )
                cosines.append(float((exact * fast).sum() / exact.norm() / fast.norm()))
        mean = sum(cosines) / max(1, len(cosines))
        row = {
            "size": size,
            "photos": len(cosines),
            "lowest": min(cosines, default=1),
            "mean": mean,
        }
        rows.append(row)
        print(row, flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
