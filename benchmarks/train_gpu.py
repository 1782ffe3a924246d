"""Time a training step on a GPU: ResNet-101 SOLAR, 8 tuples of 7 photos at 1024×1024.

    PYTHONPATH=src python benchmarks/train_gpu.py [--out benchmarks/results/train_gpu.json]

In one run, with the same weights and photos: the plain published loop (float32 as torch computes it
by default, eager, contiguous maps, attention maps held in memory, gradients kept for conv5_x, which
nobody uses) and our trainer's step, in several settings. Reported: median time of a step, photos a
second, peak memory, and how far loss and descriptors are from the plain loop's. Weights are drawn
at random, scaled so that activations keep their size. On a machine without a GPU it runs all the
same, which is for trying it at a small size.
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from lib.machine import machine
from lib.networks import network
from torch import Tensor, nn

from solar.models import RetrievalNet
from solar.nn import SecondOrderAttention
from solar.training.objective import RetrievalLoss, Terms, objective
from solar.training.progress import Meter
from solar.training.retrieval.frozen_front import TrainableNet
from solar.training.retrieval.parameter_groups import parameter_groups
from solar.training.retrieval.recipe import RetrievalCompute, RetrievalOptimiser

LOSS = RetrievalLoss("triplet", 1.25, second_order=10, reduction="per_query")
MINING = 341, 50  # how photos are described to find negatives: side, and photos at once
VARIANTS = {
    "ours": RetrievalCompute(),
    "ours, all photos at once": RetrievalCompute(frozen_batch=1000),
    "ours, checkpointing": RetrievalCompute(checkpoint=True),
    "ours, not fused": RetrievalCompute(fused="no"),
    "ours, float32": RetrievalCompute(precision="float32", fused="no"),
}


def plain_step(net: RetrievalNet, images: Tensor, landmarks: Tensor) -> Callable[[], Terms]:
    """The published loop: what it keeps, computes and updates."""
    backbone = net.backbone
    for name, parameter in backbone.named_parameters():
        parameter.requires_grad_(name.startswith(("soa", "layer4")))
    net.train()
    groups: list[dict[str, Any]] = [
        {"params": [p for n, p in backbone.named_parameters() if n.startswith("soa")]},
        {"params": list(net.pool.parameters()), "lr": 1e-4, "weight_decay": 0},
        {"params": list(net.get_submodule("whiten").parameters())},
    ]
    optimiser = torch.optim.Adam(groups, lr=1e-6, weight_decay=1e-6)
    stem = backbone.stages()[0][1]

    def attend(name: str, x: Tensor) -> Tensor:
        block = backbone.get_submodule(name)
        assert isinstance(block, SecondOrderAttention)
        q, k, v = (head(x).flatten(2).mT for head in (block.query, block.key, block.value))
        z = torch.softmax(block.mid**-0.5 * (q @ k.mT), dim=-1)
        out: Tensor = x + block.output((z @ v).mT.unflatten(2, x.shape[2:]))
        return out

    def step() -> Terms:
        optimiser.zero_grad()
        with torch.no_grad():
            x = stem(images)
            for name in ("layer1", "layer2", "layer3"):
                x = backbone.get_submodule(name)(x)
        x = backbone.get_submodule("layer4")(attend("soa4", x))
        terms = objective(net.head(attend("soa5", x)), landmarks, LOSS)
        torch.autograd.backward(terms["loss"])
        optimiser.step()
        return terms

    return step


def our_step(
    net: RetrievalNet, compute: RetrievalCompute, pixels: Tensor, landmarks: Tensor
) -> tuple[Callable[[], Terms], TrainableNet]:
    """What `solar.train` does with a batch."""
    settings = RetrievalOptimiser()
    optimiser = settings.build(parameter_groups(net, settings), net.device)
    trainable, meter = TrainableNet(net.train(), compute), Meter()
    learning = [p for p in net.parameters() if p.requires_grad]

    def step() -> Terms:
        optimiser.zero_grad(set_to_none=True)
        terms = objective(trainable([pixels]), landmarks, LOSS)
        torch.autograd.backward(terms["loss"])
        terms["gradient"] = nn.utils.clip_grad_norm_(learning, float("inf"))
        meter.add(terms)
        meter.read()
        optimiser.step()
        return terms

    return step, trainable


def measure(step: Callable[[], Any], rounds: int, photos: int, on_gpu: bool) -> dict[str, float]:
    """Median time of a step after three to warm up, and the most memory one takes."""
    for _ in range(3):
        step()
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        step()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0
    return {
        "seconds": round(seconds, 4),
        "photos_per_second": round(photos / seconds, 1),
        "peak_gib": round(peak, 3),
    }


def mosaics(count: int, size: int) -> Tensor:
    """Photos of coloured tiles, (count, size, size, 3): unlike noise, they differ after pooling."""
    generator = torch.Generator().manual_seed(0)
    shape = (count, -(-size // 32), -(-size // 32), 3)
    tiles = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    tiles = tiles.repeat_interleave(32, 1).repeat_interleave(32, 2)
    return tiles[:, :size, :size].contiguous()


@torch.no_grad()
def compare(ours: Tensor, plain: Tensor, landmarks: Tensor) -> dict[str, float]:
    """How far two networks are apart before they have learnt anything."""
    losses = [float(objective(rows, landmarks, LOSS)["loss"]) for rows in (ours, plain)]
    return {
        "loss": losses[0],
        "loss_difference": losses[0] - losses[1],
        "smallest_cosine": float(F.cosine_similarity(ours, plain).min()),
    }


def main() -> None:
    """Measure every way, the plain one first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--tuples", type=int, default=8)
    parser.add_argument("--negatives", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--backbone", default="resnet101")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    start = network({4: 4, 5: 2}, options.backbone, device)
    count = options.tuples * (2 + options.negatives)
    pixels = mosaics(count, options.size).to(device)
    landmarks = torch.arange(count, device=device).view(options.tuples, -1)
    landmarks[:, 1] = landmarks[:, 0]
    results: dict[str, Any] = {
        "machine": machine(),
        "photos": count,
        "size": options.size,
        "backbone": options.backbone,
        "conv_tf32": torch.backends.cudnn.allow_tf32,
    }

    net = copy.deepcopy(start)
    images = net.normalise(pixels).contiguous()
    with torch.no_grad():
        expected = torch.cat([net(part) for part in torch.split(images, 8)])
    step = plain_step(net, images, landmarks)
    results["plain"] = plain = measure(step, options.rounds, count, on_gpu)
    print("plain", plain, flush=True)
    del net, images, step
    for name, compute in VARIANTS.items():
        if not on_gpu and compute.precision == "auto":
            print(f"{name}: in float32 here")
        if on_gpu:
            torch.cuda.empty_cache()
        net = copy.deepcopy(start)
        ours, trainable = our_step(net, compute, pixels, landmarks)
        with torch.no_grad():
            apart = compare(trainable([pixels]), expected, landmarks)
        found = measure(ours, options.rounds, count, on_gpu) | apart
        found["speed_up"] = round(plain["seconds"] / found["seconds"], 2)
        if on_gpu:
            found["memory_share"] = round(found["peak_gib"] / plain["peak_gib"], 3)
        results[name] = found
        print(name, found, flush=True)
        del net, ours, trainable
    results["mining_photos_per_second"] = mining(start, options.rounds, min(options.size, 341))
    print("mining", results["mining_photos_per_second"], "photos per second")
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=2) + "\n")


def mining(net: RetrievalNet, rounds: int, side: int) -> float:
    """Photos described a second to find negatives, decoding left out."""
    on_gpu = net.device.type == "cuda"
    _, trainable = our_step(net, RetrievalCompute(), torch.empty(0), torch.empty(0))
    net.eval()
    pixels = torch.zeros(MINING[1], side, side, 3, dtype=torch.uint8, device=net.device)

    def describe() -> None:
        with torch.no_grad():
            trainable([pixels])

    return measure(describe, rounds, len(pixels), on_gpu)["photos_per_second"]


if __name__ == "__main__":
    main()
