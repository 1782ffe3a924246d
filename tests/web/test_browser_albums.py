"""Albums and several indexes in a real browser, on a desk and on a phone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.web_browser import LANDMARKS, PHOTOS, VIEWS, Page, Visit, finished
from support.web_browser_fixtures import served

from solar.albums.report import GroupPhoto, GroupReport, PhotoGroup

pytest_plugins = ["support.web_browser_fixtures"]


def index_shown(page: Page) -> str:
    chosen = page.get_by_label("Index", exact=True)
    return chosen.evaluate("one => one.selectedOptions[0].text")


@pytest.fixture(scope="module")
def several(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of two indexes below a path; the second has albums, which lie beside it."""
    folder = tmp_path_factory.mktemp("albums")
    for name, other in (("small", "first"), ("other", "second")):
        shutil.copytree(collection / f"{name}.solar", folder / f"{other}.solar")
    groups = [
        PhotoGroup(
            tuple(
                GroupPhoto(f"landmark-{place:03}/view-{view:03}.jpg", VIEWS - view, 20, 0.9)
                for view in range(VIEWS - place % 3)
            ),
            VIEWS,
        )
        for place in range(LANDMARKS)
    ]
    GroupReport(PHOTOS, groups).write(folder / "second.groups.json")
    options = ("--allow-root", collection, "--root-path", "/mine")
    with served(folder / "first.solar", folder / "second.solar", *options) as address:
        yield address


@pytest.mark.parametrize("width", [1280, 390])
def test_albums_of_the_second_index_are_opened_and_exported(
    visit: Visit, several: str, width: int
) -> None:
    page = visit(several, viewport={"width": width, "height": 800})
    switch = page.get_by_label("Index", exact=True)
    switch.wait_for()
    assert switch.locator("option").all_text_contents() == ["first", "second"]
    assert page.get_by_role("link", name="Albums").count() == 0  # the first has none
    switch.select_option("second")
    page.wait_for_url("**/mine/indexes/second/#/")
    assert page.get_by_label("Index", exact=True).evaluate(
        "one => one.selectedOptions[0].text"
    ) == ("second")

    page.keyboard.press("g")
    page.locator(".album-card").nth(LANDMARKS - 1).wait_for()
    assert "8 albums with 41 of 52 photos" in page.locator(".facts").inner_text()
    page.shoot(f"albums-{width}")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.shoot(f"albums-dark-{width}")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("q")  # an album is no photo to search with
    page.keyboard.press("Enter")
    page.locator(".card .card-actions").nth(4).wait_for()
    assert page.locator(".card").count() == VIEWS - 1
    assert page.locator(".view-title").text_content() == "landmark-001"
    page.locator("summary", has_text="Details").click()
    page.get_by_text("matches 90 % of the others").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.shoot(f"album-dark-{width}")
    with page.expect_download() as saving:
        page.get_by_role("button", name="JSON").click()
    [album] = json.loads(Path(saving.value.path()).read_text())
    assert album["cover"] == "landmark-001/view-000.jpg"

    page.locator(".card-main").first.click()
    page.locator("dialog.viewer [data-key=q]").wait_for()
    page.keyboard.press("q")
    finished(page)
    assert page.url.startswith(f"{several}/indexes/second/#/?q=")
    page.go_back()
    page.locator("dialog.viewer").wait_for()
    page.keyboard.press("Escape")
    page.locator(".card .card-actions").first.wait_for()
    page.get_by_role("link", name="All albums").click()
    page.locator(".album-card").first.wait_for()
    page.get_by_label("Index", exact=True).select_option("first")
    page.get_by_text("There are no albums in first.").wait_for()
    page.locator(".browse .card").first.wait_for()


def test_an_uploaded_photo_is_searched_with_in_the_other_index_too(
    visit: Visit, several: str, collection: Path
) -> None:
    page = visit(several)
    photo = collection / "photos" / "landmark-003" / "view-002.jpg"
    page.locator("input[type=file]").first.set_input_files(photo)
    finished(page)
    query = page.url.partition("#")[2]
    # Numbers of photos and filters are those of one index.
    page.goto(f"{page.url}&and=3&like=5&name=view&rerank=none")
    finished(page)
    page.get_by_label("Index", exact=True).select_option("second")
    page.wait_for_url("**/indexes/second/#/**")
    finished(page)
    assert page.url.partition("#")[2] == f"{query}&rerank=none"
    assert "landmark-003/view-002.jpg" in page.locator(".card").first.inner_text().replace("\n", "")
    page.go_back()
    finished(page)
    assert page.get_by_label("Index", exact=True).evaluate(
        "one => one.selectedOptions[0].text"
    ) == ("first")
    page.go_forward()
    finished(page)
    page.get_by_label("Index", exact=True).select_option("first")
    page.wait_for_url("**/mine/#/?q=q-**")  # where its saved searches are


def test_large_letters_do_not_overlap_in_the_bar(visit: Visit, several: str) -> None:
    page = visit(f"{several.rstrip('/')}/indexes/second/")
    page.locator(".browse .card").first.wait_for()
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    page.shoot("large-letters")
    parts = page.locator(".brand, .index-switch, .tab, .bar-end").all()
    boxes = [part.bounding_box() for part in parts]
    assert len(boxes) == 6
    for at, one in enumerate(boxes):
        for two in boxes[at + 1 :]:
            beside = one["x"] + one["width"] <= two["x"] or two["x"] + two["width"] <= one["x"]
            assert beside or one["y"] + one["height"] <= two["y"]
    cut = "one => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight"
    for name in (".brand", ".bar"):
        assert not page.locator(name).evaluate(cut), name
