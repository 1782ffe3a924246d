"""Draw the picture of the README: an attention map, matching points, and search results.

    pip install -c constraints.txt scikit-learn    # brings the photo
    python benchmarks/readme_picture.py [-o docs/found.jpg]

Above, a photograph of the Summer Palace in Beijing by danielbuechele
(https://www.flickr.com/photos/danielbuechele/6061409035, CC BY 2.0, as scikit-learn publishes it):
with the attention map of the location with the star (last layer), and with the points that match a
part of it, cut out askew and darkened. Below, a generated query, its attention map, and the best
results among 71 generated photos, with a green border for the same building and a red one for
another. The network is the bundled one.
"""

import argparse
import tempfile
from importlib import resources
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

import solar
from solar.demo import toy
from solar.images import find_photos
from solar.index.build import fill
from solar.models import RetrievalNet
from solar.show.colours import PAPER, write
from solar.show.matches import draw_lines
from solar.show.ranking_strips import RIGHT, WRONG
from solar.storage.types import Hit

OUT = Path(__file__).parents[1] / "docs" / "found.jpg"
STAR = (210, 290)
# The corners of the part: upper left, lower left, lower right, upper right.
PART = (30, 15, 60, 420, 390, 380, 350, 0)
LINES = 40
LANDMARKS, VIEWS, FIRST, SIZE = 12, 6, 300, (640, 480)
# Building, view, and the place whose attention is shown, in parts of the photo.
BUILDING, VIEW, PLACE = 304, 1, (0.6, 0.45)
HITS = 4
LARGE, SMALL = (392, 262), (190, 142)
GAP, BORDER, TEXT = 12, 5, 16


def draw(model: RetrievalNet, photo: Image.Image, folder: Path) -> Image.Image:
    """The picture; generated photos and the index of them go into a folder."""
    return _below(
        _row(
            [_attention(model, photo, STAR, LARGE), *_matches(photo)],
            ("Attention map of the star", "Matching points"),
        ),
        _row(
            _search(model, folder),
            ("Query image", "Attention map", "Search results, best first"),
        ),
    )


def _attention(
    model: RetrievalNet, photo: Image.Image, at: tuple[float, float], cell: tuple[int, int]
) -> Image.Image:
    return _fitted(solar.attention(model, photo, at=at, size=min(photo.size)).overlay(0), cell)


def _matches(photo: Image.Image) -> list[Image.Image]:
    """The photo and a part of it, cut out askew and darkened, with lines between inliers."""
    part = photo.transform(photo.size, Image.Transform.QUAD, PART, Image.Resampling.BICUBIC)
    part = ImageEnhance.Color(ImageEnhance.Brightness(part).enhance(0.7)).enhance(0.8)
    found = solar.match(photo, part)
    assert found.same_scene
    pairs = found.pairs[found.inliers]
    pairs = pairs[np.linspace(0, len(pairs) - 1, min(LINES, len(pairs))).astype(int)]
    scale = LARGE[0] / photo.width
    starts = found.points_a[pairs[:, 0]] * scale
    ends = found.points_b[pairs[:, 1]] * scale + (LARGE[0] + GAP, 0)
    both = Image.new("RGB", (2 * LARGE[0] + GAP, LARGE[1]), PAPER)
    both.paste(_fitted(photo, LARGE), (0, 0))
    both.paste(_fitted(part, LARGE), (LARGE[0] + GAP, 0))
    return [draw_lines(both, starts, ends, 2)]


def _search(model: RetrievalNet, folder: Path) -> list[Image.Image]:
    """A query, its attention map, and the best results among the other generated photos."""
    photos, query = folder / "photos", folder / "query.jpg"
    toy.write(photos, landmarks=LANDMARKS, views=VIEWS, size=SIZE, first=FIRST)
    # What asks is not among what is searched.
    (photos / f"landmark-{BUILDING:03}/view-{VIEW:03}.jpg").rename(query)
    with fill(folder / "index", find_photos(photos), model=model, size=max(SIZE)) as index:
        hits = index.search(query, k=HITS)
    asked = Image.open(query)
    at = (PLACE[0] * SIZE[0], PLACE[1] * SIZE[1])
    found = [_framed(photos, hit) for hit in hits]
    return [_fitted(asked, SMALL), _attention(model, asked, at, SMALL), *found]


def _fitted(image: Image.Image, cell: tuple[int, int]) -> Image.Image:
    return ImageOps.fit(image.convert("RGB"), cell, Image.Resampling.LANCZOS)


def _framed(photos: Path, hit: Hit) -> Image.Image:
    right = hit.path.startswith(f"landmark-{BUILDING:03}/")
    photo = _fitted(Image.open(photos / hit.path), SMALL)
    inside = photo.crop((BORDER, BORDER, SMALL[0] - BORDER, SMALL[1] - BORDER))
    return ImageOps.expand(inside, BORDER, RIGHT if right else WRONG)


def _row(cells: list[Image.Image], headings: tuple[str, ...]) -> Image.Image:
    """Pictures beside each other, headings above the first of them."""
    top = TEXT * 3 // 2
    wide = sum(cell.width + GAP for cell in cells) - GAP
    row = Image.new("RGB", (wide, top + cells[0].height), PAPER)
    left = 0
    for number, cell in enumerate(cells):
        if number < len(headings):
            write(row, (left, 0), headings[number], TEXT)
        row.paste(cell, (left, top))
        left += cell.width + GAP
    return row


def _below(*rows: Image.Image) -> Image.Image:
    wide, high = max(row.width for row in rows), sum(row.height + GAP for row in rows)
    picture = Image.new("RGB", (wide + 2 * GAP, high + GAP), PAPER)
    top = GAP
    for row in rows:
        picture.paste(row, (GAP, top))
        top += row.height + GAP
    return picture


def main() -> None:
    """Draw it and save it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", type=Path, default=OUT)
    output = parser.parse_args().output
    try:
        photo = resources.files("sklearn.datasets.images") / "china.jpg"
    except ModuleNotFoundError:
        parser.error(
            "the photo comes with scikit-learn: pip install -c constraints.txt scikit-learn"
        )
    model = solar.load()
    assert isinstance(model, RetrievalNet)
    with (
        tempfile.TemporaryDirectory(prefix="solar-picture-") as folder,
        photo.open("rb") as file,
        Image.open(file) as image,
    ):
        draw(model, image.convert("RGB"), Path(folder)).save(output, quality=85)


if __name__ == "__main__":
    main()
