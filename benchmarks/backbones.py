"""Time backbones of `transformers` on a GPU: ours against the library's own model in bfloat16.

    PYTHONPATH=src python benchmarks/backbones.py [--json results.json] [--profile]

DINOv2 ViT-B/14 at 518×518, DINOv3 ConvNeXt-B and ConvNeXt V2-B at 1024×768, three scales, batches
of 32, weights drawn at random. Ours is what an extraction runs: from bytes to descriptors, with
normalising, resizing, GeM, whitening and the average over scales. The library's model gets the
resized batches ready-made in bfloat16, and its maps are averaged. Both take turns in one run. The
share is of the rate at which this GPU multiplies large bfloat16 matrices, measured in the same run.
`--device cpu --small` runs tiny networks, to try the program.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from lib.gpu_clock import gpu_milliseconds
from lib.machine import machine
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from solar.describe.fast_net import FusedNet
from solar.models import RetrievalConfig, RetrievalNet
from solar.nn.backbones.backbone import without_drawing
from solar.nn.backbones.transformers import TransformersBackbone, new_body

_BASE = {"depths": [3, 3, 27, 3], "hidden_sizes": [128, 256, 512, 1024]}
_TINY = {"depths": [1, 1, 2, 1], "hidden_sizes": [8, 8, 16, 24]}
_VIT = {"model_type": "dinov2", "patch_size": 14, "num_hidden_layers": 12, "image_size": 518}
_NARROW = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
# Settings, height, width; then the same to try the program with.
NETWORKS: dict[str, tuple[dict[str, Any], int, int]] = {
    "ViT-B/14": ({**_VIT, "hidden_size": 768, "num_attention_heads": 12}, 518, 518),
    "ConvNeXt-B": ({"model_type": "dinov3_convnext", **_BASE}, 768, 1024),
    "ConvNeXt V2-B": ({"model_type": "convnextv2", **_BASE}, 768, 1024),
}
SMALL: dict[str, tuple[dict[str, Any], int, int]] = {
    "ViT-B/14": ({**_VIT, **_NARROW}, 70, 98),
    "ConvNeXt-B": ({"model_type": "dinov3_convnext", **_TINY}, 96, 128),
    "ConvNeXt V2-B": ({"model_type": "convnextv2", **_TINY}, 96, 128),
}
_SCALES = ("lambda1", "gamma", "layer_scale_parameter", "grn.weight", "grn.bias")


def plain_model(settings: dict[str, Any], device: str) -> Any:
    """The library's backbone, with scales that let every layer count: they start near zero."""
    torch.manual_seed(0)
    with torch.device(device):
        body = new_body(settings)
    for name, parameter in body.named_parameters():
        if name.endswith(_SCALES):
            torch.nn.init.uniform_(parameter, 0.1, 0.3)
    return body


def gflop(settings: dict[str, Any], batches: list[Tensor]) -> float:
    """Arithmetic of the library's model for one photo at all scales, without computing it."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        body = new_body(settings)
        for images in batches:
            body(torch.empty(1, *images.shape[1:]))
    return float(counter.get_total_flops()) / 1e9


def milliseconds(run: Callable[[], Any], device: str) -> float:
    """Time of a call, by the GPU's own clock where there is one."""
    if device == "cpu":
        begin = time.perf_counter()
        run()
        return 1000 * (time.perf_counter() - begin)
    return gpu_milliseconds(run)


def matrix_peak(device: str, side: int) -> float:
    """TFLOP a second of a large bfloat16 product, the median of twenty."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    times = [milliseconds(lambda: a @ b, device) for _ in range(25)]
    return 2 * side**3 / statistics.median(times[5:]) / 1e9


def compare(
    settings: dict[str, Any], pixels: Tensor, rounds: int, *, profile: bool
) -> dict[str, Any]:
    """Both ways to describe the photos (b, h, w, 3), in turns."""
    device, photos = pixels.device.type, len(pixels)
    body = plain_model(settings, device)
    with without_drawing():
        kind = settings["model_type"]
        net = RetrievalNet(RetrievalConfig(kind, backbone_settings=settings)).to(device).eval()
    assert isinstance(net.backbone, TransformersBackbone)
    net.backbone.take(body)
    ours = FusedNet(net)
    with torch.inference_mode():
        images = net.normalise(pixels)
        exact = net.multiscale(images[:4])
        body = body.to(ours.dtype)
        batches = [
            net.rescale(images, scale).to(ours.dtype, memory_format=torch.contiguous_format)
            for scale in net.config.scales
        ]
    del images

    def plain() -> list[Tensor]:
        with torch.inference_mode():
            return [body(batch).feature_maps[-1].mean(dim=(2, 3)) for batch in batches]

    runs: dict[str, Callable[[], Any]] = {"ours": lambda: ours(pixels), "plain": plain}
    for _ in range(4):  # kernels are chosen, then launches recorded
        for run in runs.values():
            run()
    times = [[milliseconds(run, device) for run in runs.values()] for _ in range(rounds)]
    if profile:
        for name, run in runs.items():
            print(name, kernels(run, device), sep="\n")
    per_photo = {
        f"{name}_ms_per_photo": statistics.median(column) / photos
        for name, column in zip(runs, zip(*times, strict=True), strict=True)
    }
    return {
        "size": [pixels.shape[2], pixels.shape[1]],
        "gflop_per_photo": gflop(settings, batches),
        **per_photo,
        "times_as_fast": statistics.median(theirs / own for own, theirs in times),
        "cosine_to_float32": F.cosine_similarity(ours(pixels)[:4], exact).min().item(),
    }


def kernels(run: Callable[[], Any], device: str) -> str:
    """What a call spends its time with, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU] if device == "cpu" else [ProfilerActivity.CUDA]
    with profile(activities=kinds) as record:
        run()
        if device != "cpu":
            torch.cuda.synchronize()
    table: str = record.key_averages().table(
        sort_by=f"self_{device}_time_total", row_limit=12, max_name_column_width=70
    )
    return table


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny networks, to try the program")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true", help="print what takes the time")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    import transformers

    device, small = arguments.device, arguments.small
    peak = matrix_peak(device, 512 if small else 8192)
    results: dict[str, Any] = {
        "machine": machine() | {"transformers": transformers.__version__},
        "batch": arguments.batch,
        "matrix_peak_tflops": peak,
        "networks": {},
    }
    print(
        f"matrix peak: {peak:.3g} TFLOP/s\n\n| network | way | ms per photo | share of the peak |"
    )
    print("|---|---|---:|---:|")
    for name, (settings, height, width) in (SMALL if small else NETWORKS).items():
        shape = (arguments.batch, height, width, 3)
        pixels = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
        found = compare(settings, pixels, arguments.rounds, profile=arguments.profile)
        for way in ("plain", "ours"):
            ms = found[f"{way}_ms_per_photo"]
            found[f"{way}_share_of_peak"] = share = found["gflop_per_photo"] / ms / peak
            print(f"| {name} | {way} | {ms:.3f} | {share:.0%} |", flush=True)
        fast, cosine = found["times_as_fast"], found["cosine_to_float32"]
        print(f"| | {fast:.2f} times as fast, cosine to float32 {cosine:.6f} | | |", flush=True)
        results["networks"][name] = found
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
