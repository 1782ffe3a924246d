"""Peak memory of one attention block on maps of 32² to 192² locations, fused and explicit.

    python benchmarks/attention_memory.py [--json results.json]

Each measurement runs in a process of its own and counts what the forward pass adds to the
process's peak: fused attention must grow with the number of locations, the explicit map grows
with its square. Explicit maps stop where they would pass 4 GiB.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from lib.machine import machine

CHANNELS, REDUCTION = 256, 4
SIDES = (32, 48, 64, 96, 128, 192)
MOST = 4 * 2**30


def measure(side: int, explicit: bool) -> float:
    """MiB that a forward pass on a side × side map adds to the peak of a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(side), "explicit" if explicit else "fused"],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def forward_once(side: int, explicit: bool) -> float:
    """Run here and now; only right in a process that has done nothing large before."""
    import resource

    import torch

    from solar.nn import SecondOrderAttention

    block = SecondOrderAttention(CHANNELS, REDUCTION).eval()
    run = (lambda x: block.forward_with_map(x)[0]) if explicit else block
    with torch.inference_mode():
        run(torch.rand(1, CHANNELS, 8, 8))  # libraries are loaded before the count starts
        x = torch.rand(1, CHANNELS, side, side)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(x)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    """Measure every size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(forward_once(int(arguments.one[0]), arguments.one[1] == "explicit"))
        return
    rows = []
    print(f"{'locations':>10} {'fused MiB':>10} {'explicit MiB':>13}")
    for side in SIDES:
        explicit = measure(side, True) if 3 * 4 * side**4 < MOST else None
        row = {"locations": side * side, "fused": measure(side, False), "explicit": explicit}
        rows.append(row)
        shown = "–" if explicit is None else f"{explicit:.0f}"
        print(f"{side * side:>10} {row['fused']:>10.0f} {shown:>13}", flush=True)
    if arguments.json:
        result = {"machine": machine(), "channels": CHANNELS, "reduction": REDUCTION, "rows": rows}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
