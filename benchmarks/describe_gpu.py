"""Time a photo on a GPU: ResNet-101 with attention after conv4 and conv5, 1024×768, three scales.

    PYTHONPATH=src python benchmarks/describe_gpu.py [--model M] [--json results.json]

In one run: a plain eager float32 loop over single photos, the fast path at batch 32 and for single
photos, the same without attention, and whole builds from JPEG files. Weights are drawn at
random, scaled so that activations keep their size; the files are generated. With --model, that
network alone, photos as large as it takes them: at batch 32, and from files.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from lib.gpu_clock import gpu_milliseconds
from lib.machine import machine
from lib.networks import network
from torch.utils.flop_counter import FlopCounterMode

from solar.describe import Throughput
from solar.describe.fast_net import FusedNet
from solar.images import find_photos
from solar.index.build import fill
from solar.models import RetrievalConfig, RetrievalNet, retrieval_model

HEIGHT, WIDTH, BATCH = 768, 1024, 32


def gflop(attention: dict[int, int]) -> float:
    """Arithmetic of the backbone for one photo at three scales, counted without computing it."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        net = RetrievalNet(RetrievalConfig("resnet101", attention=attention)).eval()
        for scale in net.config.scales:
            net.backbone(torch.empty(1, 3, int(scale * HEIGHT), int(scale * WIDTH)))
    return float(counter.get_total_flops()) / 1e9


def milliseconds(run: Any, rounds: int) -> float:
    """Median time of a call, by the GPU's own clock, after warming up."""
    for _ in range(3):
        run()
    return statistics.median(gpu_milliseconds(run) for _ in range(rounds))


def compute(results: dict[str, Any]) -> RetrievalNet:
    """Everything that starts with pixels on the GPU."""
    pixels = torch.randint(0, 256, (BATCH, HEIGHT, WIDTH, 3), dtype=torch.uint8, device="cuda")
    one = pixels[:1].contiguous()
    solar, gem = network({4: 4, 5: 2}), network({})

    def plain() -> torch.Tensor:
        with torch.inference_mode():
            return solar.multiscale(solar.normalise(one))

    results["plain_float32_single_ms"] = milliseconds(plain, 10)
    with torch.inference_mode():
        exact = torch.cat([solar.multiscale(solar.normalise(p[None])) for p in pixels[:8]])
    fast, fast_gem = FusedNet(solar), FusedNet(gem)
    results["cosine_to_float32"] = F.cosine_similarity(fast(pixels)[:8], exact).min().item()
    # In turns, so that a change of clocks hits both.
    rounds = [
        (milliseconds(lambda: fast(pixels), 10), milliseconds(lambda: fast_gem(pixels), 10))
        for _ in range(5)
    ]
    results["solar_batch_ms_a_photo"] = statistics.median(s for s, _ in rounds) / BATCH
    results["gem_batch_ms_a_photo"] = statistics.median(g for _, g in rounds) / BATCH
    results["attention_cost"] = statistics.median(s / g for s, g in rounds) - 1
    results["solar_single_ms"] = milliseconds(lambda: fast(one), 50)
    results["gem_single_ms"] = milliseconds(lambda: fast_gem(one), 50)
    results["batch_peak_GiB"] = torch.cuda.max_memory_allocated() / 2**30
    return solar


def compute_model(net: RetrievalNet, results: dict[str, Any]) -> None:
    """One network at its own size, from pixels on the GPU."""
    height, width = round(net.config.size * HEIGHT / WIDTH), net.config.size
    pixels = torch.randint(0, 256, (BATCH, height, width, 3), dtype=torch.uint8, device="cuda")
    fast = FusedNet(net)
    results["size"] = [width, height]
    results["solar_batch_ms_a_photo"] = milliseconds(lambda: fast(pixels), 30) / BATCH
    results["solar_single_ms"] = milliseconds(lambda: fast(pixels[:1].contiguous()), 50)


def end_to_end(net: RetrievalNet, results: dict[str, Any], photos: int) -> None:
    """Whole builds from JPEG files: decoding, transfer, description, writing."""
    from PIL import Image

    from solar.demo import toy

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "photos")
        folder.mkdir()
        made = []
        for i in range(16):
            image = toy.landmark(i, 0, size=(WIDTH // 2, HEIGHT // 2)).resize(
                (WIDTH, HEIGHT), Image.Resampling.LANCZOS
            )
            made.append(folder / f"made-{i}.jpg")
            image.save(made[-1], quality=90)
        for i in range(photos - len(made)):
            os.link(made[i % len(made)], folder / f"{i:06}.jpg")
        times: list[tuple[float, int]] = []
        start = time.perf_counter()

        def progress(step: str, done: int, total: int) -> None:
            if done:
                times.append((time.perf_counter() - start, done))

        fill(
            Path(temporary, "index"),
            find_photos(folder),
            model=net,
            throughput=Throughput(batch=BATCH),
            progress=progress,
        )
    # The rate once running: without loading the network and starting the decoders.
    skip = len(times) // 5
    done = times[-1][1] - times[skip][1]
    results["end_to_end_ms_a_photo"] = 1000 * (times[-1][0] - times[skip][0]) / done
    results["end_to_end_photos"] = photos
    results["end_to_end_start_s"] = times[0][0]


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=8192, help="of the end-to-end run")
    parser.add_argument("--model", help="a network that describes photos; drawn ones without it")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {"machine": machine()}
    if arguments.model:
        net = retrieval_model(arguments.model, device="cuda")
        compute_model(net, results)
    else:
        results["solar_gflop"], results["gem_gflop"] = gflop({4: 4, 5: 2}), gflop({})
        net = compute(results)
    for name, value in results.items():
        print(f"{name}: {value}", flush=True)
    end_to_end(net, results, arguments.photos)
    ratio = results["end_to_end_ms_a_photo"] / results["solar_batch_ms_a_photo"] - 1
    results["end_to_end_over_compute"] = ratio
    for name in ("end_to_end_ms_a_photo", "end_to_end_over_compute", "end_to_end_start_s"):
        print(f"{name}: {results[name]}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
