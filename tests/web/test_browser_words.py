"""Searches with words in a browser, on a screen and a phone."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tiny_joint import write_joint
from support.web_browser import PHONE, Page, Visit, finished, parameters, ranks
from support.web_browser_fixtures import served

from solar.demo import toy
from solar.index import Index
from solar.index.build import build

pytest_plugins = ["support.web_browser_fixtures"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("reading")
    write_joint("siglip", home / "siglip")
    toy.write(home / "photos", landmarks=4, views=2, size=(96, 72))
    build(home / "photos", home / "i.solar", model=home / "siglip").close()
    return home


@pytest.fixture(scope="module")
def reading(home: Path) -> Iterator[str]:
    """A server whose model has a text side."""
    with served(home / "i.solar") as url:
        yield url


def wait_for_search(page: Page, address: str) -> list[str]:
    page.wait_for_url(re.compile(address))
    finished(page)
    return ranks(page)


def test_words_are_written_and_searched_with(reading: str, home: Path, visit: Visit) -> None:
    page = visit(reading)
    form = page.get_by_role("form", name="Search with words")
    field = form.get_by_label("In words")
    field.wait_for()
    page.shoot("words-start")
    page.keyboard.press("t")
    assert field.evaluate("field => field === document.activeElement")
    page.keyboard.type("a red door")
    page.keyboard.press("Enter")
    words = wait_for_search(page, r"text=a\+red\+door")
    with Index.open(home / "i.solar") as index:
        expected = [hit.path for hit in index.search(text="a red door")]
    assert page.locator(".card").count() == len(expected) == 8
    assert expected[0] in page.locator(".card").first.inner_html()
    assert field.input_value() == "a red door"
    assert page.get_by_role("switch").count() == 0  # nothing to verify
    page.locator(".card").first.get_by_role("button", name="More").click()
    assert page.get_by_role("menuitem", name="Matching details").count() == 0
    page.keyboard.press("Escape")
    page.shoot("words")

    field.fill("a blue house")
    form.get_by_role("button", name="Search").click()
    assert wait_for_search(page, r"text=a\+blue\+house") != words
    page.go_back()
    assert wait_for_search(page, r"text=a\+red\+door") == words
    assert field.input_value() == "a red door"

    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add to this search").click()
    chooser.value.set_files(home / "photos" / "landmark-002" / "view-001.jpg")
    both = wait_for_search(page, r"q=q-")
    assert parameters(page)["text"] == "a+red+door"
    page.locator(".panel img").first.wait_for()
    assert both != words
    page.shoot("words-and-photo")
    field.fill("")
    field.press("Enter")
    page.wait_for_url(lambda url: "text=" not in url)
    finished(page)
    assert page.get_by_role("form", name="Search with words").is_visible()


def test_on_a_phone(reading: str, visit: Visit) -> None:
    page = visit(reading, viewport=PHONE, has_touch=True, is_mobile=True)
    form = page.get_by_role("form", name="Search with words")
    form.get_by_label("In words").fill("the tree")
    send = form.get_by_role("button", name="Search")
    box = send.bounding_box()
    assert min(box["width"], box["height"]) >= 36
    send.tap()
    first = wait_for_search(page, "text=the")[0]
    page.shoot("words-phone")
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths == [PHONE["width"]] * 2
    page.locator(f".card[data-id='{first}']").get_by_role("link", name="Search with").tap()
    page.wait_for_url(re.compile(f"q={first}"))
    assert "text" not in parameters(page)


def test_a_model_that_does_not_read_shows_no_field(site: str, visit: Visit) -> None:
    page = visit(site)
    page.locator(".card").first.wait_for()
    assert page.get_by_role("form").count() == 0
    page.goto(f"{site}#/?q=4")
    finished(page)
    assert page.get_by_role("form").count() == 0
