import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from solar.images import Roots
from solar.index import Index
from solar.ranking.query import Part
from solar.show.search_page import ranking_page
from solar.storage.types import Hit

EVIL = '<script>"&.jpg'


@pytest.fixture
def index(tmp_path: Path) -> Index:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, colour in ((EVIL, "red"), ("b.jpg", "blue")):
        Image.new("RGB", (400, 200), colour).save(folder / name)
    names = [EVIL, "gone.jpg"]
    return Index.create(tmp_path / "i.solar", np.eye(2), names, roots=Roots.at(folder))


def tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    found: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    Reader().feed(page)
    return found


def test_the_page_shows_query_and_hits_and_loads_nothing(index: Index) -> None:
    page = ranking_page(index, [f"name:{EVIL}"], [Hit(EVIL, 0.9876), Hit("gone.jpg", -0.1)])
    images = [attributes for tag, attributes in tags(page) if tag == "img"]
    assert len(images) == 2
    assert all(a["src"].startswith("data:image/jpeg;base64,") for a in images)
    assert "0.988" in page
    assert page.count("photo not found") == 1
    assert not re.findall(r"https?:|url\(|@import|<link|<script", page)


def test_a_query_by_name_is_the_indexed_photo_whatever_files_are_called(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (400, 200), "blue").save(f"name:{EVIL}", "JPEG")
    page = ranking_page(index, [f"name:{EVIL}"], [])
    [source] = [a["src"] for tag, a in tags(page) if tag == "img"]
    assert source is not None
    shown = Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
    assert shown.getpixel((9, 9)) == pytest.approx((255, 0, 0), abs=9)


def test_names_are_escaped(index: Index) -> None:
    page = ranking_page(index, [f"name:{EVIL}"], [Hit(EVIL, 1.0)])
    assert not [tag for tag, _ in tags(page) if tag == "script"]
    assert {a.get("alt") for tag, a in tags(page) if tag == "img"} == {EVIL}


def test_the_box_is_drawn_where_it_is(index: Index, tmp_path: Path) -> None:
    page = ranking_page(index, [Part(tmp_path / "photos" / "b.jpg", (100, 50, 500, 100))], [])
    [style] = [a["style"] for tag, a in tags(page) if a.get("class") == "box"]
    assert style == "left:25.00%;top:25.00%;width:75.00%;height:25.00%"


def test_thumbnails_are_small(index: Index) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (3000, 1000), "green").save(buffer, "PNG")
    page = ranking_page(index, [buffer.getvalue()], [])
    [image] = [a for tag, a in tags(page) if tag == "img"]
    data = base64.b64decode(str(image["src"]).partition(",")[2])
    assert Image.open(io.BytesIO(data)).size == (480, 160)


def test_photos_may_have_moved(index: Index, tmp_path: Path) -> None:
    moved = (tmp_path / "photos").rename(tmp_path / "moved")
    hits = [Hit(EVIL, 1.0)]
    assert "photo not found" in ranking_page(index, [EVIL], hits)
    assert "photo not found" not in ranking_page(index, [EVIL], hits, photos=moved)


def test_right_and_wrong_are_marked_and_attention_maps_are_shown(index: Index) -> None:
    hits = [Hit(EVIL, 0.9), Hit("gone.jpg", 0.1)]
    page = ranking_page(
        index,
        [f"name:{EVIL}"],
        hits,
        marks={EVIL: True, "gone.jpg": False},
        attention=Image.new("RGB", (640, 80)),
    )
    assert page.index("✓ right") < page.index("✗ wrong") < page.index("Attention maps")
    [shown] = [a for tag, a in tags(page) if tag == "img" and a["width"] == "640"]
    assert shown["src"].startswith("data:image/jpeg;base64,")
    assert "✓" not in ranking_page(index, [f"name:{EVIL}"], hits)
