"""Filters, order, selection, removal and links, by the keyboard."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.filtered_photos import NIGHT, VIEWS
from support.web_browser import Page, Visit, finished, parameters, ranks, until
from support.web_browser_fixtures import served

pytest_plugins = ["support.web_browser_fixtures"]

FOCUSED = "document.activeElement"
TEXT = f"{FOCUSED}.ariaLabel ?? {FOCUSED}.closest('label, button, a, summary')?.innerText ?? ''"


@pytest.fixture(scope="module")
def photos(filtered: Path) -> Path:
    return filtered.with_name("photos")


@pytest.fixture(scope="module")
def shop(filtered: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server below a path of a larger site, whose index may be changed."""
    own = shutil.copytree(filtered, tmp_path_factory.mktemp("shop") / "i.solar")
    options = ("--allow-root", filtered.parent, "--writable", "--root-path", "/mine")
    with served(own, *options) as url:
        yield f"{url}/"


def tab_to(page: Page, text: str) -> None:
    """Presses Tab until something with this text has the focus."""
    for _ in range(80):
        if page.evaluate(TEXT).strip().startswith(text):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{text} cannot be reached with Tab")


def names(page: Page) -> list[str]:
    return page.locator(".card-name").evaluate_all("all => all.map(one => one.title)")


def count(page: Page, cards: int) -> None:
    until(
        page,
        "wanted => document.querySelectorAll('.results:not([aria-busy]) .card').length === wanted",
        cards,
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_a_search_is_narrowed_sorted_exported_saved_and_thinned_out(
    shop: str, photos: Path, visit: Visit, width: int
) -> None:
    page = visit(
        f"{shop}#/?q=0&rerank=none", viewport={"width": width, "height": 800}, expected=("422",)
    )
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    keys = page.keyboard
    finished(page)
    everything = len(ranks(page))

    # A filter, which the address has
    page.locator(".known-fields input").first.wait_for(state="attached")
    keys.press("f")
    assert page.evaluate(TEXT).startswith("Words in the name")
    tab_to(page, "Folder")
    keys.type("landmark-001")
    keys.press("Enter")
    count(page, VIEWS)
    assert parameters(page)["folder"] == "landmark-001%2F"
    assert all(name.startswith("landmark-001/") for name in names(page))
    tab_to(page, "Words in the name")
    tab_to(page, "Advanced")
    keys.press("Enter")
    tab_to(page, "Condition")
    keys.type("width>1")
    keys.press("Enter")
    page.get_by_text("The condition 'width>1' is not understood: write tag=night").wait_for()
    tab_to(page, "Remove the filter: width>1")
    keys.press("Enter")
    count(page, VIEWS)
    tab_to(page, "Condition")
    assert page.get_by_text("own fields: color, floor, indoor").count() == 1
    keys.type("color=red")
    keys.press("Enter")
    count(page, 1)
    page.locator(".card a").first.click()
    facts = page.locator(".viewer-facts")
    facts.wait_for()
    assert all(told in facts.inner_text() for told in ("color\nred", "floor\n3", "indoor\nfalse"))
    keys.press("Escape")
    tab_to(page, "Remove the filter: color=red")
    keys.press("Enter")
    count(page, VIEWS)

    # Another order
    tab_to(page, "Sort")
    keys.type("New")
    page.wait_for_url(re.compile("sort=newest"))
    finished(page)
    until(page, "() => document.querySelector('.card-name').title.endsWith('view-002.jpg')")
    assert names(page) == [f"landmark-001/view-{view:03d}.jpg" for view in (2, 1, 0)]

    # A selection: one, from there to here, none, all
    keys.press("Escape")  # out of the list of orders
    bar = page.get_by_role("group", name="Selected photos")
    keys.press("ArrowDown")
    keys.press("x")
    assert bar.get_by_text("1 selected").is_visible()
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    keys.press("X")
    assert bar.get_by_text("3 selected").is_visible()
    page.shoot(f"filters-selected-{width}")
    keys.press("Escape")
    assert bar.is_hidden()
    keys.press("*")
    assert page.locator(".select-box[aria-checked=true]").count() == VIEWS
    edge = bar.bounding_box()["x"] + bar.bounding_box()["width"]
    for button in bar.get_by_role("button").all():
        assert button.bounding_box()["x"] + button.bounding_box()["width"] <= edge

    # which leaves the page
    tab_to(page, "Copy paths")
    keys.press("Enter")
    page.get_by_text("3 paths copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines() == names(page)

    # A link finds its photo again, wherever that is counted now
    shown = names(page)
    keys.press("S")
    page.get_by_text("Link copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{shop}#/?q=0&")
    page.goto(link.replace("q=0", "q=6").replace("p0=", "p6="))
    page.wait_for_url(re.compile(r"q=0&(?!.*p6=)"))
    count(page, VIEWS)
    assert names(page) == shown
    assert parameters(page) == {
        **{"q": "0", "rerank": "none", "folder": "landmark-001%2F", "sort": "newest"}
    }

    # A photo leaves the index after one question, and no folder
    page.goto(f"{shop}#/?q=0&rerank=none&sort=name")
    count(page, everything)
    keys.press("ArrowDown")
    keys.press("+")
    marked = page.get_by_role("group", name="Marked results")
    assert marked.get_by_text("more like 1").is_visible()
    keys.press("x")
    gone = page.locator(".card a:focus").get_attribute("title")
    tab_to(page, "Remove")
    keys.press("Enter")
    page.get_by_role("heading", name="Remove 1 photo from").wait_for()
    assert page.evaluate(TEXT) == "Cancel"
    tab_to(page, "Remove 1 photo")
    page.shoot(f"filters-remove-{width}")
    keys.press("Enter")
    count(page, everything - 1)
    assert gone not in names(page)
    assert marked.is_hidden()  # nobody searches again with what is gone
    assert page.locator("#collection").text_content().endswith(f"· {everything}")
    assert (photos / gone).is_file()

    # It comes back from the notice, and later from the list
    page.shoot(f"filters-removed-{width}")
    page.locator(".toast").get_by_role("button", name="Undo").click()
    count(page, everything)
    assert gone in names(page)
    card = page.locator(".card", has=page.locator(f".card-name[title='{gone}']"))
    card.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Remove from the collection").click()
    page.get_by_role("button", name="Remove 1 photo").click()
    count(page, everything - 1)
    page.get_by_role("button", name="Advanced").first.click()
    page.get_by_role("menuitem", name="Removed photos").click()
    page.get_by_role("button", name=f"Put back {gone}").wait_for()
    page.shoot(f"removed-{width}")
    page.get_by_role("button", name=f"Put back {gone}").click()
    page.get_by_text("No photo was removed.").wait_for()


def test_the_collection_is_filtered_and_an_upload_is_in_no_link(
    shop: str, photos: Path, visit: Visit
) -> None:
    page = visit(f"{shop}#/?tag=night&sort=oldest")
    page.locator(".browse .card").first.wait_for()
    assert page.locator(".browse-head .soft").inner_text() == "1 photo"
    assert page.get_by_role("combobox", name="Tag").is_hidden()  # the photos are what is wanted
    page.get_by_role("button", name="Filters").click()
    assert page.get_by_role("combobox", name="Tag").input_value() == "night"
    assert names(page) == [NIGHT]
    page.get_by_role("button", name="Remove the filter: Tag night").click()
    until(page, "() => document.querySelectorAll('.browse .card').length > 1")
    page.locator(".select-box").nth(1).click()
    page.locator(".select-box").nth(4).click(modifiers=["Shift"])
    assert page.get_by_role("group", name="Selected photos").get_by_text("4 selected").is_visible()
    page.get_by_role("combobox", name="Root").select_option("phone")
    until(page, "() => document.querySelectorAll('.browse .card').length === 2")
    page.get_by_label("Taken from").fill("2019-01-01")
    page.get_by_text("No photos match these filters.").wait_for()
    assert page.get_by_text("4 selected, 4 not shown").is_visible()
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("button", name=re.compile(r"^Select all \d+$")).click()
    until(page, "() => !document.querySelector('.selected-text').innerText.includes('not shown')")
    page.goto(f"{shop}#/")
    unfold = page.get_by_role("button", name="Filters")
    for opened in ("false", "true", "false"):  # they were opened above
        unfold.click()
        assert unfold.get_attribute("aria-expanded") == opened
        assert page.get_by_role("combobox", name="Tag").is_visible() == (opened == "true")
    page.locator("input[type=file]").first.set_input_files(photos / NIGHT)
    finished(page)
    page.keyboard.press("S")
    page.get_by_text("An uploaded photo cannot be part of a link").wait_for()
    page.goto(f"{shop}#/?q=0&p0=gone.jpg")
    page.get_by_text("gone.jpg is no longer in this collection.").wait_for()


def test_a_removal_leaves_the_list_where_it_is(shop: str, visit: Visit) -> None:
    page = visit(shop, viewport={"width": 390, "height": 500})
    page.locator(".browse .card").nth(3).wait_for()
    before = names(page)
    page.evaluate("scrollTo(0, 400)")
    page.locator(".card").nth(1).get_by_role("button", name="More").click()
    scrolled = page.evaluate("scrollY")
    page.get_by_role("menuitem", name="Remove from the collection").click()
    page.get_by_role("button", name="Remove 1 photo").click()
    page.get_by_text("1 photo removed.").wait_for()
    until(page, "wanted => document.querySelectorAll('.card').length === wanted", len(before) - 1)
    assert names(page) == [before[0], *before[2:]]
    assert page.evaluate("scrollY") == scrolled > 0
    page.locator(".toast").get_by_role("button", name="Undo").click()
    until(page, "wanted => document.querySelectorAll('.card').length === wanted", len(before))


def test_a_removal_that_failed_halfway_goes_on_with_the_rest(shop: str, visit: Visit) -> None:
    page = visit(shop, expected=("507",))
    page.locator(".browse .card").first.wait_for()
    asked: list[list[str]] = []

    def answer(route: Any) -> None:
        asked.append(json.loads(route.request.post_data)["photos"])
        full = len(asked) == 2
        body = {"error": "The disk is full."} if full else {"removed": 1, "photos": 1}
        route.fulfill(status=507 if full else 200, json=body)

    page.route("**/photos/remove", answer)
    page.evaluate(
        """async () => {
          const { removalDialog } = await import('/static/js/filters/removal.js');
          const info = await (await fetch('/api/v1/info')).json();
          const photos = Array.from({ length: 1500 }, (_, id) => ({ id: String(id), name: 'n' }));
          removalDialog(photos, info, (gone) => (window.gone = gone.size));
        }"""
    )
    again = page.get_by_role("button", name="Remove 1,500 photos")
    again.click()
    page.get_by_text("The disk is full.").wait_for()
    again.click()
    page.get_by_text("1,500 photos removed.").wait_for()
    until(page, "window.gone === 1500")
    assert [len(ids) for ids in asked] == [1000, 500, 500]
    assert asked[1] == asked[2]
