"""How long a JPEG takes to become pixels, and what fast mode costs in quality.

Run ``python benchmarks/decode.py``. Every way of reading is timed side by side in one process, in
turns, and compared with exact mode. Photos are generated, or tiled from real ones with ``--photos``
(at their own resolution: detail in every pixel, harder on fast mode than camera photos are).
simplejpeg, where installed, shows what a second JPEG decoder would gain.
"""

import argparse
import importlib
import io
import json
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image

from solar.images import load
from solar.images.decode import GAPS
from solar.images.resize import thumbnail_size

Pixels = NDArray[np.uint8]
SIZE = 1024
CASES = [(4000, 3000), (3000, 4000), (3100, 2325), (2100, 1575), (2000, 1500), (1024, 768)]
LANCZOS = Image.Resampling.LANCZOS


@dataclass(frozen=True)
class Row:
    """One way of reading one photo: best time, ratio of times, likeness of pixels."""

    width: int
    height: int
    method: str
    milliseconds: float
    ratio_to_exact: float
    psnr_to_exact: float | None  # None where the pixels are equal


def published(data: bytes) -> Pixels:
    """Read a photo with the calls of the published code."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    image.thumbnail((SIZE, SIZE), LANCZOS)
    return np.array(image)


def without_gap(data: bytes) -> Pixels:
    """Let Pillow's JPEG decoder scale as far as the target allows, whatever detail that costs."""
    image = Image.open(io.BytesIO(data))
    target = thumbnail_size(*image.size, SIZE)
    scaled = image.draft(None, target)
    box = scaled[1] if scaled else None
    return np.array(image.resize(target, LANCZOS, box=box, reducing_gap=2.0))


def simplejpeg_reader(simplejpeg: Any, gap: float) -> Callable[[bytes], Pixels]:
    """Make a reader that scales by any eighth, where Pillow has only halves, quarters, eighths."""

    def read(data: bytes) -> Pixels:
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        target = thumbnail_size(width, height, SIZE)
        spare = min(width / target[0], height / target[1])
        eighths = min(math.ceil(8 * gap / spare), 8)
        pixels: Pixels = simplejpeg.decode_jpeg(
            data, min_width=width * eighths // 8, min_height=height * eighths // 8
        )
        if target == (width, height):
            return pixels
        box = (0, 0, width * eighths / 8, height * eighths / 8)
        image = Image.fromarray(pixels)
        return np.array(image.resize(target, LANCZOS, box=box, reducing_gap=2.0))

    return read


def methods() -> dict[str, Callable[[bytes], Pixels]]:
    """List the ways of reading; the one named exact is what the others are compared with."""
    ways: dict[str, Callable[[bytes], Pixels]] = {
        "exact": lambda data: load(data, SIZE).pixels,
        "published calls": published,
        "fast": lambda data: load(data, SIZE, mode="fast").pixels,
        "fast, gap 1": without_gap,
    }
    try:
        simplejpeg = importlib.import_module("simplejpeg")
    except ImportError:
        return ways
    gap = GAPS["fast"]
    ways[f"simplejpeg, gap {gap}"] = simplejpeg_reader(simplejpeg, gap)
    ways["simplejpeg, gap 1.4"] = simplejpeg_reader(simplejpeg, 1.4)
    return ways


def synthetic(width: int, height: int) -> Image.Image:
    """Draw noise of every octave, as strong as it is coarse, like the spectrum of real photos."""
    rng = np.random.default_rng(0)
    total = np.zeros((height, width, 3), np.float32)
    for octave in range(9):
        step = 2**octave
        shape = (height // step + 2, width // step + 2, 3)
        noise = Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8))
        smooth = noise.resize((width, height), Image.Resampling.BICUBIC)
        total += (np.asarray(smooth, np.float32) - 127.5) * step**0.5
    total *= 50 / total.std()
    return Image.fromarray(np.clip(total + 127.5, 0, 255).astype(np.uint8))


def tiled(paths: list[Path], width: int, height: int) -> Image.Image:
    """Lay photos side by side, row by row, until they cover the size."""
    canvas = Image.new("RGB", (width, height))
    x = y = row = used = 0
    while y < height:
        tile = Image.open(paths[used % len(paths)]).convert("RGB")
        used += 1
        canvas.paste(tile, (x, y))
        row = min(row or tile.height, tile.height)
        x += tile.width
        if x >= width:
            x, y, row = 0, y + row, 0
    return canvas


def photo(folder: Path | None, width: int, height: int) -> bytes:
    """Make the JPEG of one case."""
    if folder is None:
        image = synthetic(width, height)
    else:
        paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
        if not paths:
            raise SystemExit(f"There are no .jpg files in {folder}.")
        image = tiled(paths, width, height)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=92)
    return stream.getvalue()


def psnr(a: Pixels, b: Pixels) -> float | None:
    """Compare two pictures in decibels; None if they are equal."""
    error = float(np.mean((a.astype(np.float64) - b) ** 2))
    return 10 * math.log10(255**2 / error) if error else None


def measure(data: bytes, width: int, height: int, rounds: int) -> list[Row]:
    """Time every method on one photo, taking turns so that all meet the same disturbances."""
    ways = methods()
    pixels = {name: read(data) for name, read in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, read in ways.items():
            start = time.perf_counter()
            read(data)
            times[name].append(time.perf_counter() - start)
    best = {name: min(taken) for name, taken in times.items()}  # the least disturbed round
    return [
        Row(
            width,
            height,
            name,
            1000 * best[name],
            best[name] / best["exact"],
            psnr(pixels[name], pixels["exact"]),
        )
        for name in ways
    ]


def main() -> None:
    """Parse the options, measure every case, print a table and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--photos", type=Path, help="folder of .jpg files to tile (else synthetic)")
    parser.add_argument("--rounds", type=int, default=15, help="timings per method (default 15)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()

    print(f"JPEG to at most {SIZE} pixels, Pillow {PIL.__version__}, one thread")
    print(f"{'photo':>11}  {'method':<20} {'ms':>7} {'ratio':>6} {'PSNR':>6}")
    rows: list[Row] = []
    for width, height in CASES:
        data = photo(options.photos, width, height)
        for row in measure(data, width, height, options.rounds):
            likeness = "equal" if row.psnr_to_exact is None else f"{row.psnr_to_exact:.1f}"
            print(
                f"{width:>6}x{height:<4}  {row.method:<20} {row.milliseconds:>7.1f} "
                f"{row.ratio_to_exact:>6.2f} {likeness:>6}"
            )
            rows.append(row)
    if options.json:
        report = {
            "size": SIZE,
            "photos": "tiled" if options.photos else "synthetic",
            "rounds": options.rounds,
            "pillow": PIL.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
