"""Patches of real photos by every backend, beside torch: how fast, and how near to float32.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/patch_backends.py --photos affine \
        --ranges photos --out patch_backends.json

All describe the patches of `--photos` in turn. With `--ranges`, a last int8 takes its ranges not
from drawn patches but from those of other photos. Parts of a pair's time without the network are
measured, too: finding keypoints, cutting patches, and matching (two photos each), and RootSIFT.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.machine import machine

from solar.describe.cpu import libraries as runtime
from solar.describe.cpu.backends import BACKENDS
from solar.images import load
from solar.images.opencv import opencv
from solar.local.features import keypoints_of, local_features, patch_cutter
from solar.local.patch_cutting import REGION, SMALLEST, GreyPhotos, cut, square_frames
from solar.local.patch_network import PatchBackend, open_patch_backend, patch_descriptors
from solar.matching.match import match_features
from solar.models import PatchNet
from solar.models import load as load_model
from solar.models.export import export_onnx, quantise_onnx

INT8 = "openvino-int8"


def patches_in(folder: Path, photos: int, each: int) -> torch.Tensor:
    """Patches (n, 1, 32, 32) around keypoints of photos below a folder, both drawn from a seed."""
    random = np.random.default_rng(0)
    files = sorted(folder.rglob("*.jpg"))
    chosen = random.permutation(len(files))[:photos]
    parts = []
    for number in np.sort(chosen):
        grey = opencv().cvtColor(load(files[number], 1024).pixels, opencv().COLOR_RGB2GRAY)
        found, _ = keypoints_of(grey, "sift", 2048, describe=False)
        found = found[np.sort(random.permutation(len(found))[:each])]
        parts.append(patch_cutter(grey, found)(slice(None)))
    return torch.cat(parts)


def by_ranges(model: PatchNet, patches: torch.Tensor) -> PatchBackend:
    """int8 in OpenVINO with ranges from these patches."""
    with tempfile.TemporaryDirectory() as folder:
        plain, int8 = Path(folder, "plain.onnx"), Path(folder, "int8.onnx")
        export_onnx(model, plain)
        quantise_onnx(plain, int8, iter(patches.numpy().reshape(-1, 64, 1, 32, 32)))
        run = runtime.start("openvino", int8, torch.get_num_threads())
    return PatchBackend(model, INT8, run)


def parts_of_a_pair(folder: Path) -> dict[str, float]:
    """Processor milliseconds of the parts of a pair that are no network, mean over sequences."""
    times: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[..., Any], *given: Any, **settings: Any) -> Any:
        start = time.process_time()
        result = work(*given, **settings)
        times.setdefault(name, []).append(1000 * (time.process_time() - start))
        return result

    for sequence in sorted(path for path in folder.iterdir() if path.is_dir()):
        pair = []
        for photo in (sequence / "1.jpg", sequence / "4.jpg"):
            pixels = timed("decoding", load, photo, 1024).pixels
            grey = opencv().cvtColor(pixels, opencv().COLOR_RGB2GRAY)
            found, _ = timed("keypoints", keypoints_of, grey, "sift", 2048, describe=False)
            timed("patches", cut_by_batches, grey, found)
            pair.append(timed("rootsift", local_features, photo))
        timed("matching", match_features, *pair)
    twice = ("decoding", "keypoints", "patches", "rootsift")
    return {name: float(np.mean(of) * (1 + (name in twice))) for name, of in times.items()}


def cut_by_batches(grey: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> None:
    """Cut patches as for a network."""
    sides = np.maximum(REGION * found[:, 2], SMALLEST)
    frames = square_frames(found[:, :2], sides, np.deg2rad(found[:, 3]))
    photos = GreyPhotos.lay([grey])
    for start in range(0, len(found), 64):
        cut(photos, frames[start : start + 64])


def main() -> None:
    """Measure all, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="solar-local-345")
    parser.add_argument("--photos", type=Path, required=True, help="folders of sequences")
    parser.add_argument("--ranges", type=Path, help="a folder of other photos")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    opencv().setNumThreads(arguments.threads)
    model = load_model(arguments.model, device="cpu")
    assert isinstance(model, PatchNet)
    patches = patches_in(arguments.photos, 16, 64)
    plain = patch_descriptors(model, patches)
    opened = {name: open_patch_backend(model, name) for name in BACKENDS[1:]}
    if arguments.ranges:
        others = by_ranges(model, patches_in(arguments.ranges, 32, 64)[: 31 * 64])
        opened[f"{INT8}, ranges of photos"] = others
    ways: dict[str, Callable[[], Any]] = {"torch": lambda: patch_descriptors(model, patches)}
    for name, one in opened.items():
        assert isinstance(one, PatchBackend), f"{name} does not work here"
        ways[name] = partial(one.descriptors_of, len(patches), patches.__getitem__)
    times: dict[str, list[float]] = {name: [] for name in ways}
    rows = {name: work() for name, work in ways.items()}
    for _ in range(arguments.rounds):
        for name, work in ways.items():
            start = time.process_time()
            work()
            times[name].append(1000 * (time.process_time() - start) / len(patches))
    found = {}
    for name, own in times.items():
        cosines = (rows[name] * plain).sum(axis=1)
        found[name] = {
            "processor_ms_a_patch": float(np.median(own)),
            "times_as_fast": float(np.median(times["torch"]) / np.median(own)),
            "cosine_mean": float(cosines.mean()),
            "cosine_first_percentile": float(np.percentile(cosines, 1)),
            "cosine_least": float(cosines.min()),
        }
        print(name, json.dumps(found[name]), flush=True)
    parts = parts_of_a_pair(arguments.photos)
    print(json.dumps(parts))
    facts = {"model": arguments.model, "patches": len(patches), "threads": arguments.threads}
    results = {"machine": machine(), **facts, "backends": found, "pair_ms": parts}
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
