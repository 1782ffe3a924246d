"""Peak memory of a build over more and more photos: it must not grow with their number.

    python benchmarks/build_memory.py [--photos 1000 10000] [--json results.json]

Generated photos, a small network, a process of its own for each number. What is reported is the
process's own memory (mapped files not counted), at its highest during the run, decoders included.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lib.machine import machine
from lib.memory import PeakMemory, own_memory


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [
            int(n) for n in Path(f"/proc/{process}/task/{process}/children").read_text().split()
        ]
    except OSError:
        return []


def build_here(folder: Path) -> None:
    """Build an index and print the highest memory seen, in bytes."""
    import torch

    from solar.describe import Throughput
    from solar.images import find_photos
    from solar.index.build import fill
    from solar.models import RetrievalConfig, RetrievalNet

    torch.manual_seed(0)
    net = RetrievalNet(RetrievalConfig("resnet18", dim=64, size=96, scales=(1.0,)))
    me = os.getpid()

    def together() -> int:
        return own_memory(me) + sum(own_memory(child) for child in children(me))

    start = time.perf_counter()
    with PeakMemory(together, every=0.05) as peak:
        place = folder.parent / f"{folder.name}.solar"
        index = fill(place, find_photos(folder), model=net, throughput=Throughput(decoders=1))
    seconds = time.perf_counter() - start
    print(json.dumps({"photos": len(index), "peak_MiB": peak.bytes / 2**20, "seconds": seconds}))


def main() -> None:
    """Make the photos, run every number, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        build_here(arguments.one)
        return
    from solar.demo import toy

    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        made = toy.write(root / "made", landmarks=20, views=5, size=(128, 96))
        print(f"{'photos':>8} {'peak MiB':>9}")
        for number in arguments.photos:
            folder = root / str(number)
            folder.mkdir()
            for i in range(number):
                os.link(made[i % len(made)], folder / f"{i:06}.jpg")
            command = [sys.executable, __file__, "--one", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append(json.loads(done.stdout))
            print(f"{number:>8} {rows[-1]['peak_MiB']:>9.0f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
