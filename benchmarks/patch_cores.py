"""Describe patches on all cores: layers shared between cores, or batches.

    PYTHONPATH=src python benchmarks/patch_cores.py --threads 2 --out patch_cores.json

Sharing layers is what torch does by itself. Both describe the same random patches, in turn.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from lib.machine import machine

from solar.local.patch_network import FusedPatchNet, patch_descriptors
from solar.models import PatchNet, load


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """How long something takes by the clock, and of all processors."""
    start = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def main() -> None:
    """Measure both ways, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="solar-local-345")
    parser.add_argument("--patches", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = load(arguments.model, device="cpu")
    assert isinstance(model, PatchNet)
    patches = torch.rand(arguments.patches, 1, 32, 32, generator=torch.manual_seed(0))
    ways: dict[str, Callable[[], object]] = {
        "layers shared": lambda: model.describe(patches, forward=FusedPatchNet(model)),
        "batches shared": lambda: patch_descriptors(model, patches),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, work in ways.items():
            times[name].append(seconds(work))
    found = {
        name: dict(zip(("seconds", "processor_seconds"), np.median(rows, axis=0), strict=True))
        for name, rows in times.items()
    }
    facts = {name: getattr(arguments, name) for name in ("model", "patches", "threads", "rounds")}
    results = {"machine": machine(), **facts, "median": found}
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
