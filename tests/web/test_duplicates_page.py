"""The page of `solar duplicates --html`, as a file; tests/web goes through it in a browser."""

import base64
import hashlib
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.drawn_report import drawn_group

from solar.errors import SolarError
from solar.images import Roots
from solar.near_duplicates.report import DuplicateGroup, DuplicateReport
from solar.web.duplicates_page import write_duplicates_page


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos" / "a folder").mkdir(parents=True)
    for name in ("1.jpg", "a folder/2#.jpg", "3.tif"):
        Image.new("RGB", (40, 30), "teal").save(tmp_path / "photos" / name)
    return tmp_path / "photos"


def page(file: Path, roots: Roots, *groups: DuplicateGroup) -> tuple[str, list[Any]]:
    """The text of a page, and the groups in it."""
    write_duplicates_page(file, DuplicateReport(3, groups, roots))
    text = file.read_text(encoding="utf-8")
    chunks = re.findall(r'<script type="application/json" class="groups">(.*?)</script>', text)
    return text, [group for chunk in chunks for group in json.loads(chunk)]


def test_photos_are_linked_where_a_browser_shows_them(photos: Path, tmp_path: Path) -> None:
    names = ["1.jpg", "a folder/2#.jpg", "3.tif", "gone.jpg"]
    roots = Roots.at(photos)
    _, [group] = page(tmp_path / "page.html", roots, drawn_group("copy", names))
    linked, quoted, inside, gone = (photo["photo"] for photo in group["photos"])
    assert (linked, quoted) == ("./photos/1.jpg", "./photos/a%20folder/2%23.jpg")
    assert inside.startswith("data:image/jpeg;base64,")
    assert gone is None
    assert group["photos"][1]["path"] == str(photos / "a folder" / "2#.jpg")
    _, [group] = page(tmp_path / "elsewhere" / "page.html", roots, drawn_group("copy", names))
    assert group["photos"][0]["photo"] == (photos / "1.jpg").as_uri()


def test_photos_of_a_shard_are_inside(photos: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        shard.add(photos / "1.jpg", "1.jpg")
    copies = drawn_group("exact", ["1.jpg", "1.jpg"])
    _, [group] = page(tmp_path / "page.html", Roots.at(tmp_path / "shard.tar"), copies)
    assert group["photos"][0]["photo"].startswith("data:image/jpeg;base64,")
    assert group["photos"][0]["path"] is None


def test_only_the_pages_own_script_may_run(photos: Path, tmp_path: Path) -> None:
    hostile = drawn_group("copy", ["1.jpg", "<!--<script>alert(1)</script>.jpg"])
    groups = [hostile, *(drawn_group("crop", ["1.jpg", f"{number}.jpg"]) for number in range(60))]
    text, found = page(tmp_path / "page.html", Roots.at(photos), *groups)
    assert [group["id"] for group in found] == [group.id for group in groups]
    assert "alert(1)</script>" not in text
    [script] = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert len(text) < 150_000


def test_a_group_with_other_pairs_is_another() -> None:
    group = drawn_group("copy", ["1.jpg", "2.jpg", "3.jpg"])
    assert replace(group, pairs=group.pairs[:1]).id != group.id
    assert replace(group, pairs=group.pairs[::-1]).id != group.id


def test_a_page_that_cannot_be_written_is_one_sentence(photos: Path) -> None:
    with pytest.raises(SolarError, match=r"1\.jpg"):
        write_duplicates_page(photos / "1.jpg" / "page.html", DuplicateReport(0, []))
