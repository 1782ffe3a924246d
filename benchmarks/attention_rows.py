"""What it takes to get the attention map of a location: once a photo, and then for every row.

Run it with `python benchmarks/attention_rows.py PHOTO`.
"""

import argparse
import time
from pathlib import Path

import torch
from lib.machine import machine

from solar.models import RetrievalConfig, RetrievalNet
from solar.show.attention_source import AttentionSource


def main() -> None:
    """Print seconds of one core, milliseconds a row and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photo", type=Path)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(machine())
    model = RetrievalNet(RetrievalConfig("resnet101", attention={4: 4, 5: 2})).eval()
    for half in (False, True):
        start = time.process_time()
        source = AttentionSource.of(model, options.photo, size=options.size, half=half)
        once = time.process_time() - start
        kept = "float16" if half else "float32"
        print(f"{kept}: {once:.1f} s once, {source.nbytes / 2**20:.1f} MiB held")
        for number, attention in source.layers.items():
            start = time.process_time()
            for row in range(options.rows):
                source.row(row * source.width / options.rows, source.height / 2, number)
            spent = 1000 * (time.process_time() - start) / options.rows
            h, w = attention.shape
            whole = (h * w) ** 2 * 4 / 2**20
            print(f"  layer {number}, {h} × {w}: {spent:.2f} ms per row; whole map {whole:.0f} MiB")


if __name__ == "__main__":
    main()
