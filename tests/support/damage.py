"""Random damage to the files of a folder, as disks and careless copies do it."""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path


def damaged_copies(
    whole: Path, scratch: Path, count: int, seed: int, *, besides: tuple[str, ...] = (".lock",)
) -> Iterator[tuple[str, Path]]:
    """Copies of a folder, each with one damage, and what that is; a copy is gone after its turn."""
    files = sorted(f for f in whole.rglob("*") if f.is_file() and f.name not in besides)
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        copy = scratch / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        # Small files would hardly ever be hit by bytes alone.
        file = copy / rng.choice(files).relative_to(whole)
        size = file.stat().st_size
        kind = rng.choice(["flip", "flip", "zero", "cut", "swap"]) if size else "flip"
        at = rng.randrange(max(size, 1))
        content = bytearray(file.read_bytes())
        if kind == "flip" and content:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == "zero":
            end = min(size, at + rng.choice([1, 16, 512, 4096]))
            content[at:end] = bytes(end - at)
        elif kind == "cut":
            del content[at:]
        elif kind == "swap":
            other = rng.randrange(size)
            content[at], content[other] = content[other], content[at]
        times = file.stat()
        file.write_bytes(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        yield f"{kind} of {file.relative_to(copy)} at {at} (case {number})", copy
    shutil.rmtree(scratch / "copy", ignore_errors=True)
