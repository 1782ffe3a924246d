"""How near to the limit of one core a patch network computes.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/patch_arithmetic.py --out arithmetic.json

Batches of several sizes, the network without attention, the small one and a plain matrix product
take turns; the least processor time of each counts. Operations are counted by torch: a multiply-add
is two.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from lib.machine import machine
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from solar.local.patch_network import FusedPatchNet
from solar.models import PatchNet, load

_SIDE = 1024  # of the matrices


def network(name: str) -> PatchNet:
    """A patch network on the CPU."""
    model = load(name, device="cpu")
    assert isinstance(model, PatchNet)
    return model.eval()


def operations(model: PatchNet) -> int:
    """Floating-point operations of products and convolutions for a patch."""
    plain = sdpa_kernel(SDPBackend.MATH)  # the products of fused attention are not counted
    with FlopCounterMode(display=False) as counter, plain, torch.no_grad():
        model(torch.rand(1, 1, 32, 32))
    return int(counter.get_total_flops())


def by_batches(net: FusedPatchNet, patches: torch.Tensor, size: int) -> None:
    """Describe all patches, so many at a time."""
    for start in range(0, len(patches), size):
        net(patches[start : start + size])


def least(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The processor seconds of each way, in turn."""
    found = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, work in ways.items():
            start = time.process_time()
            work()
            found[name] = min(found[name], time.process_time() - start)
    return found


@torch.inference_mode()
def main() -> None:
    """Measure all, and print operations a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patches", type=int, default=256)
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    patches = torch.rand(arguments.patches, 1, 32, 32, generator=torch.manual_seed(0))
    ways: dict[str, Callable[[], object]] = {}
    counts: dict[str, int] = {}
    for name in ("solar-local-345", "solar-local-none", "solar-local-small"):
        model = network(name)
        net = FusedPatchNet(model).eval()
        for size in arguments.batches:
            ways[f"{name}, batches of {size}"] = partial(by_batches, net, patches, size)
            counts[f"{name}, batches of {size}"] = operations(model) * len(patches)
    a, b = torch.rand(2, _SIDE, _SIDE)
    ways["matrix product"], counts["matrix product"] = lambda: a @ b, 2 * _SIDE**3
    seconds = least(ways, arguments.rounds)
    found = {
        name: {"processor_seconds": seconds[name], "gflops": counts[name] / seconds[name] / 1e9}
        for name in ways
    }
    facts = {"patches": len(patches), "rounds": arguments.rounds}
    results = {"machine": machine(), **facts, "least": found}
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    for name, one in found.items():
        print(f"{name}: {one['processor_seconds']:.3f} s, {one['gflops']:.0f} GFLOP/s")


if __name__ == "__main__":
    main()
