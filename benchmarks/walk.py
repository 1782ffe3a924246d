"""Count the functions and files of solar that five jobs pass through.

    PYTHONPATH=src python benchmarks/walk.py [--list] [--json walk.json]

The jobs: build an index, search it with the default re-ranking, train for one step, search with an
uploaded photo in the web app, find duplicates. Everything goes through the public API, so that any
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
from lib.machine import machine
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


def build(folder: Path) -> Callable[[], object]:
    """Build an index of a folder of photos."""
    taken = photos(folder / "photos")
    return lambda: solar.build(taken, folder / "index", device="cpu").close()


def search(folder: Path) -> Callable[[], object]:
    """Open an index of photos and search it with one of them."""
    build(folder)()
    asked = str(folder / "photos" / "a" / "0.png")
    return lambda: solar.Index.open(folder / "index").search(asked, k=3)


def upload(folder: Path) -> Callable[[], object]:
    """Search with a photo that is sent to the web app."""
    from fastapi.testclient import TestClient

    from solar.web import WebSettings, create_app

    build(folder)()
    photo = (folder / "photos" / "a" / "0.png").read_bytes()
    app = create_app(solar.Index.open(folder / "index"), settings=WebSettings(rate=0.0))

    def visit() -> None:
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            files = {"photo": ("query.png", photo)}
            sent = client.post("/api/v1/queries", files=files).raise_for_status().json()
            client.post("/api/v1/search", json={"photo": sent["id"], "k": 3}).raise_for_status()

    return visit


def duplicates(folder: Path) -> Callable[[], object]:
    """Find copies among the photos of an index."""
    build(folder)()
    return lambda: list(solar.duplicates(folder / "index"))


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
    for walk in (build, search, gradient, upload, duplicates):
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
        text = json.dumps({"machine": machine(), **counts}, indent=1)
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
