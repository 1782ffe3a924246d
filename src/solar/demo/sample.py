"""Small indexes to try things on: of generated photos, or of the user's own."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar.demo import toy
from solar.describe.progress import Progress
from solar.errors import SolarError
from solar.evaluation import evaluate_labels
from solar.files import replacing
from solar.images import Photos, find_photos
from solar.images.known_roots import confirm
from solar.index import Index
from solar.index.build import fill
from solar.models import RetrievalNet, fingerprint
from solar.ranking.rerank import AUTO
from solar.show.attention_maps import draw_photos
from solar.show.search_page import ranking_page
from solar.storage.catalogue import FORMAT
from solar.storage.folder_engine import finished
from solar.storage.types import Hit

MOST = 120
"""Photos of a folder in a sample: a minute or two on a laptop."""

_PHOTO = (480, 360)
_ATTENTION = 480  # the shorter side for attention maps: quick, fine enough
_SAME = 0.98  # similarity of copies, which are no test of a search


@dataclass(frozen=True)
class Sample:
    """A small index and a query."""

    index: Path
    query: str  # for `Index.search`: a file, or an indexed photo by its name
    label: str  # folder of the right answers; empty if unknown
    photos: int  # indexed
    found: int  # photos there were to index

    def is_right(self, path: str) -> bool:
        """Whether a photo shows what the query shows."""
        return path.startswith(f"{self.label}/")


@dataclass(frozen=True)
class SampleAnswer:
    """The result of the query."""

    hits: list[Hit]  # best first, without the query itself
    page: Path  # an HTML file that shows them, and attention maps of the query


def toy_sample(
    folder: Path,
    model: RetrievalNet,
    *,
    landmarks: int,
    views: int,
    progress: Progress | None = None,
) -> Sample:
    """Index generated photos, unless that was done before; the query is one more view."""
    place = (folder / f"{landmarks}x{views}-{fingerprint(model)[:8]}-{FORMAT}").resolve()
    photos = place / "photos"
    toy.write(photos, landmarks=landmarks, views=views, size=_PHOTO)
    query = place / "query.jpg"
    toy.landmark(0, views, size=_PHOTO).save(query, quality=90)
    index = place / "sample.solar"
    count = _index(find_photos(photos), index, model, progress)
    return Sample(index, str(query), "landmark-000", count, count)


def folder_sample(
    photos: Path, folder: Path, model: RetrievalNet, *, progress: Progress | None = None
) -> Sample:
    """Index some photos of a folder; the query is the one most similar to another. At least two."""
    every = find_photos(photos)
    some = every.select(range(min(MOST, len(every))))
    place = folder.resolve() / f"{photos.resolve().stem}-{_key(some, model)}"
    index = place / "photos.solar"
    count = _index(some, index, model, progress)
    if count < 2:
        raise SolarError(
            f"{photos} holds only {count} photo that can be read: choose a larger folder."
        )
    return Sample(index, f"name:{_surest(index, some.names)}", "", count, len(every))


def ask(sample: Sample, model: RetrievalNet, k: int = 8) -> SampleAnswer:
    """Search a sample, and write a page of hits and attention maps."""
    name = sample.query.removeprefix("name:")
    page = sample.index.parent / "ranking.html"
    with Index.open(sample.index, model=model) as index:
        # Generated buildings share windows and doors, whose keypoints match.
        found = index.search(sample.query, k + 1, rerank=None if sample.label else AUTO)
        hits = [hit for hit in found if hit.path != name][:k]
        photo = sample.query if name == sample.query else index.roots.find(name)
        maps = None
        if model.config.attention and photo is not None:
            maps = draw_photos(model, [photo], size=_ATTENTION, cell=240)
        marks = {hit.path: sample.is_right(hit.path) for hit in hits} if sample.label else None
        html = ranking_page(index, [sample.query], hits, marks=marks, attention=maps)
    with replacing(page) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return SampleAnswer(hits, page)


def score(sample: Sample) -> dict[str, float | None]:
    """Metrics in percent, with every photo of a labelled sample as a query."""
    with Index.open(sample.index) as index:
        found = index.lookup([photo.path for some in index.engine.photos() for photo in some])
    labels = [path.partition("/")[0] for path in found]
    rows = np.stack([vector for _, vector in found.values()])
    return evaluate_labels(rows, labels).to_dict()


def _index(photos: Photos, place: Path, model: RetrievalNet, progress: Progress | None) -> int:
    if finished(place):
        with Index.open(place) as opened:
            return len(opened)
    with fill(place, photos, model=model, progress=progress) as made:
        confirm(place, photos.roots)
        return len(made)


def _key(photos: Photos, model: RetrievalNet) -> str:
    files = [place if isinstance(place, Path) else place[0] for place in photos.places]
    times = [file.stat().st_mtime_ns for file in files if file.exists()]
    key = json.dumps([FORMAT, fingerprint(model), photos.names, list(map(str, files)), times])
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def _surest(index: Path, names: tuple[str, ...]) -> str:
    with Index.open(index) as opened:
        found = opened.lookup(names)
    paths = list(found)
    rows = np.stack([found[path][1] for path in paths])
    alike = rows @ rows.T
    np.fill_diagonal(alike, -1)
    best = np.where(alike < _SAME, alike, -1).max(axis=1)
    return paths[int(best.argmax())]
