"""Draw the picture of the README: query photos, an attention map of each, and the search results.

    python benchmarks/readme_picture.py [-o docs/found.jpg]

The photos are generated, so that no licence applies; the network is the bundled one. Each row is a
query: a photo, the attention map of the location with the star (last layer), and the best results
among 70 photos, with a green border for the same building and a red one for another.
"""

import argparse
import tempfile
from pathlib import Path

from PIL import Image, ImageOps

import solar
from solar.demo import toy
from solar.images import find_photos
from solar.index.build import fill
from solar.models import RetrievalNet
from solar.show.colours import PAPER, write
from solar.show.ranking_strips import RIGHT, WRONG
from solar.storage.types import Hit

OUT = Path(__file__).parents[1] / "docs" / "found.jpg"
LANDMARKS, VIEWS, FIRST = 12, 6, 300
# Building, view, and the place whose attention is shown, in parts of the photo.
QUESTIONS = ((300, 0, (0.45, 0.55)), (304, 1, (0.6, 0.45)))
CELL, GAP, BORDER, TEXT = (240, 180), 12, 6, 16
HITS = 4
HEADINGS = ("Query photo", "Attention map of the star", "Search results, best first")


def draw(model: RetrievalNet, folder: Path, *, size: tuple[int, int] = (640, 480)) -> Image.Image:
    """The picture; photos and the index of them go into a folder."""
    photos = folder / "photos"
    toy.write(photos, landmarks=LANDMARKS, views=VIEWS, size=size, first=FIRST)
    asked = [_path(building, view) for building, view, _ in QUESTIONS]
    # What asks is not among what is searched.
    for number, path in enumerate(asked):
        (photos / path).rename(folder / f"{number}.jpg")
    rows = []
    with fill(folder / "index", find_photos(photos), model=model, size=max(size)) as index:
        for number, (building, _, (x, y)) in enumerate(QUESTIONS):
            query = folder / f"{number}.jpg"
            hits = index.search(query, k=HITS)
            looks = solar.attention(model, query, at=(x * size[0], y * size[1]), size=size[1])
            found = [_framed(photos, hit, building) for hit in hits]
            rows.append([_fitted(Image.open(query)), _fitted(looks.overlay(0)), *found])
    return _grid(rows)


def _path(building: int, view: int) -> str:
    return f"landmark-{building:03}/view-{view:03}.jpg"


def _fitted(image: Image.Image) -> Image.Image:
    return ImageOps.fit(image.convert("RGB"), CELL, Image.Resampling.LANCZOS)


def _framed(photos: Path, hit: Hit, building: int) -> Image.Image:
    right = hit.path.startswith(f"landmark-{building:03}/")
    photo = _fitted(Image.open(photos / hit.path))
    inside = photo.crop((BORDER, BORDER, CELL[0] - BORDER, CELL[1] - BORDER))
    return ImageOps.expand(inside, BORDER, RIGHT if right else WRONG)


def _grid(rows: list[list[Image.Image]]) -> Image.Image:
    wide, high = CELL[0] + GAP, CELL[1] + GAP
    top = GAP + TEXT * 3 // 2
    picture = Image.new("RGB", (len(rows[0]) * wide + GAP, top + len(rows) * high), PAPER)
    for column, heading in enumerate(HEADINGS):
        write(picture, (GAP + column * wide, GAP // 2), heading, TEXT)
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            picture.paste(cell, (GAP + column * wide, top + row * high))
    return picture


def main() -> None:
    """Draw it and save it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", type=Path, default=OUT)
    output = parser.parse_args().output
    model = solar.load()
    assert isinstance(model, RetrievalNet)
    with tempfile.TemporaryDirectory(prefix="solar-picture-") as folder:
        draw(model, Path(folder)).save(output, quality=88)


if __name__ == "__main__":
    main()
