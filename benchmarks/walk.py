"""Count the functions and files of solar that a query, a photo and a gradient pass.

    PYTHONPATH=src python benchmarks/walk.py [--list] [--json walk.json]

Everything goes through the public API (`Index.search`, `solar.extract`, `solar.train`), so that any
two versions of the package can be compared. A function counts once, however often it is called, and
whatever thread calls it. The second run counts, so that what runs while modules are imported does
not.
"""

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from PIL import Image

import solar

PACKAGE = str(Path(solar.__file__).parent)
RECIPE = """
network: {backbone: resnet18, attention: "45"}
data: {source: PHOTOS}
images: {size: 64}
epochs: 1
steps: 1
batch: 2
mining: {queries: 4, pool: 8, negatives: 2, size: 64}
validation: {source: PHOTOS, size: 64}
compute: {device: cpu}
"""


class Walk:
    """Which functions of solar were called while it was open."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self._codes.add(frame.f_code)

    @contextmanager
    def open(self) -> Iterator["Walk"]:
        """Watch this thread, and every thread that starts inside the block."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def functions(self) -> dict[str, list[str]]:
        """The functions of each file, without modules, class bodies and comprehensions."""
        found: dict[str, list[str]] = {}
        for code in self._codes:
            if code.co_flags & 0x1 and not code.co_name.startswith("<"):  # 0x1: has fast locals
                file = str(Path(code.co_filename).relative_to(PACKAGE))
                found.setdefault(file, []).append(code.co_qualname)
        return {file: sorted(names) for file, names in sorted(found.items())}


def photos(folder: Path) -> Path:
    """Three places with four photos of noise each."""
    draw = np.random.default_rng(0)
    for place in "abc":
        (folder / place).mkdir(parents=True)
        for number in range(4):
            pixels = draw.integers(0, 255, (96, 128, 3), np.uint8)
            Image.fromarray(pixels).save(folder / place / f"{number}.png")
    return folder


def query(folder: Path) -> Callable[[], object]:
    """Open an index of photos and search it with one of them."""
    store = solar.extract(photos(folder / "photos"), folder / "store", device="cpu")
    solar.Index.create(folder / "index", store).close()
    asked = str(folder / "photos" / "a" / "0.png")
    return lambda: solar.Index.open(folder / "index").search(asked, k=3)


def photo(folder: Path) -> Callable[[], object]:
    """Describe a folder of photos into a store."""
    taken = photos(folder / "photos")
    return lambda: solar.extract(taken, folder / "store", device="cpu")


def gradient(folder: Path) -> Callable[[], object]:
    """Train for one step."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.replace("PHOTOS", str(photos(folder / "photos"))))
    return lambda: solar.train(recipe, run=folder / "run")


def main() -> None:
    """Print the counts, and with --list the functions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the functions, file by file")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    counts: dict[str, dict[str, int]] = {}
    for walk in (query, photo, gradient):
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                run = walk(Path(folder))
                with Walk().open() as seen:
                    run()
        found = seen.functions()
        name = walk.__name__
        counts[name] = {"functions": sum(map(len, found.values())), "files": len(found)}
        print(f"{name}: {counts[name]['functions']} functions in {counts[name]['files']} files")
        if options.list:
            for file, names in found.items():
                print(f"  {file}: {', '.join(names)}")
    if options.json:
        options.json.write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
