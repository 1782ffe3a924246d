"""The results of a search as a self-contained HTML page."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

from solar.errors import SolarError, printable
from solar.images import Box, Roots, Source, read_image
from solar.index.photo_index import PhotoIndex
from solar.index.search import BY_NAME
from solar.ranking.query import Words, parts_of
from solar.ranking.verdict import WORDS, judged, verdict
from solar.storage.types import Hit

_SIDE = 480
_QUALITY = 82
_MARKS = {True: '<span class="right">✓ right</span>', False: '<span class="wrong">✗ wrong</span>'}


def ranking_page(
    index: PhotoIndex,
    queries: Sequence[Any],
    hits: Sequence[Hit],
    *,
    photos: str | Path | None = None,
    marks: Mapping[str, bool] | None = None,
    attention: Image.Image | None = None,
) -> str:
    """The HTML of queries, as of `Index.search`, and hits; it loads nothing from elsewhere.

    Args:
        index: The index that was searched.
        queries: Files, bytes, images or indexed paths, `Part`s or `Words`.
        hits: The results; missing photos are left blank.
        photos: Folder of the indexed photos, if they have moved.
        marks: Path to whether a result is correct, where known.
        attention: Attention maps of the query, for a section of their own.
    """
    roots = index.roots.moved_to(photos)
    parts = parts_of(list(queries))
    shown = "".join(_query(part.photo, roots.find, part.box) for part in parts)
    known = judged(hits)
    found = "".join(
        _hit(number, hit, roots, known, (marks or {}).get(hit.path))
        for number, hit in enumerate(hits, 1)
    )
    style = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    likely = sum(verdict(hit) != "similar" for hit in hits)
    some = f"{likely:,} likely the same place, " if known else ""
    heading = f"{some}{len(hits):,} of {len(index):,} photos"
    made = f"Embeddings of {index.spec.model}" if index.spec.model else "Best first"
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(heading)}</title>\n<style>\n{style}</style>\n"
        f"<h1>{escape(heading)}</h1>\n<p>{escape(made)}</p>\n"
        f'<h2>Query</h2>\n<div class="queries">{shown}</div>\n'
        f"<h2>Results</h2>\n<ol>{found}</ol>\n{_attention(attention)}</html>\n"
    )


def _query(query: Any, find: Callable[[str], Source | None], box: Box | None) -> str:
    source: Source | None
    if isinstance(query, Words):
        return f"<figure>{escape(printable(query.text))}</figure>\n"
    if isinstance(query, bytes):
        name, source = "standard input", query
    elif isinstance(query, str | Path):
        name = str(query).removeprefix(BY_NAME)
        is_file = Path(query).is_file() and name == str(query)
        source = query if is_file else find(name)
    else:
        name, source = "", query if isinstance(query, Image.Image) else None
    name = printable(name)
    return f"<figure>{_photo(source, name, box)}<figcaption>{escape(name)}</figcaption></figure>\n"


def _hit(number: int, hit: Hit, roots: Roots, known: bool, right: bool | None = None) -> str:
    said = verdict(hit)
    words = WORDS[said] if known else f"No. {number}"
    facts = [f"No. {number}", f"similarity {hit.score:.3f}"]
    if hit.probability is not None:
        facts.append(f"{hit.probability:.0%} likely the same place")
    if hit.inliers is not None:
        facts.append(f"{hit.inliers:,} matching details, {hit.threshold} are needed")
    mark = "" if right is None else _MARKS[right]
    source = roots.find(hit.path)
    photo, name = _photo(source, hit.path), escape(printable(hit.path))
    if isinstance(source, Path):
        link = f'<a href="{escape(source.absolute().as_uri())}">'
        photo, name = f"{link}{photo}</a>", f"{link}{name}</a>"
    return (
        f"<li><figure>{photo}<figcaption>"
        f'<details class="{said if known else "unknown"}"><summary>{words}{mark}</summary>'
        f"{', '.join(facts)}</details>{name}</figcaption></figure></li>\n"
    )


def _photo(source: Source | None, name: str, box: Box | None = None) -> str:
    image = None
    with suppress(SolarError):
        image = read_image(source) if source is not None else None
    if image is None:
        return '<div class="photo gone">photo not found</div>'
    width, height = image.size
    small = image.copy()
    small.thumbnail((_SIDE, _SIDE))
    frame = "" if box is None else _frame(box, width, height)
    return (
        f'<div class="photo"><img src="{data_address(small)}" alt="{escape(name)}" '
        f'width="{small.width}" height="{small.height}">{frame}</div>'
    )


def _attention(picture: Image.Image | None) -> str:
    if picture is None:
        return ""
    return (
        "<h2>Attention maps of the query</h2>\n"
        "<p>On the left, the query with four points; then the attention map of each point, for "
        "every layer with attention.</p>\n"
        f'<figure class="attention"><img src="{data_address(picture)}" width="{picture.width}" '
        f'height="{picture.height}" alt="Attention maps of four locations"></figure>\n'
    )


def data_address(picture: Image.Image) -> str:
    """A data: URL of a picture, as JPEG."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _frame(box: Box, width: int, height: int) -> str:
    left, top = 100 * max(box[0], 0) / width, 100 * max(box[1], 0) / height
    right, bottom = 100 * min(box[2], width) / width, 100 * min(box[3], height) / height
    return (
        f'<div class="box" style="left:{left:.2f}%;top:{top:.2f}%;'
        f'width:{right - left:.2f}%;height:{bottom - top:.2f}%"></div>'
    )
