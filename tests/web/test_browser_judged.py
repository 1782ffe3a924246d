"""Queries of several photos, and results that are ticked and crossed, on a screen and a phone."""

import re
from pathlib import Path
from typing import Any

import pytest
from support.web_browser import PHOTOS, VIEWS, Page, Visit, finished, parameters, ranks

pytest_plugins = ["support.web_browser_fixtures"]

PHONE = {"width": 390, "height": 800}
QUERY = str(4 + VIEWS)  # the first photo of landmark-001


def start(site: str) -> str:
    return f"{site}#/?q={QUERY}"


def choose(card: Any, text: str) -> None:
    """Chooses from the menu of a card."""
    card.get_by_role("button", name="More").click()
    card.page.locator(".menu-item", has_text=text).click()


def first_is(page: Page, photo: str) -> None:
    page.locator(f".card:first-child[data-id='{photo}']").wait_for()


def scrolled_to_the_end(page: Page, count: int) -> list[str]:
    for _ in range(20):
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        if page.locator(".card").count() == count:
            break
        page.wait_for_timeout(100)
    return ranks(page)


def test_ticks_and_crosses_change_the_search(site: str, visit: Visit) -> None:
    page = visit(start(site))
    finished(page)
    plain = ranks(page)
    bar = page.get_by_role("group", name="Marked results")
    assert bar.is_hidden()
    right, wrong = plain[5], plain[0]
    card = page.locator(f".card[data-id='{right}']")
    choose(card, "More like this")
    assert card.get_attribute("data-judged") == "More like this"
    assert page.locator("[data-judged]").count() == 1
    page.locator(f".card[data-id='{wrong}'] a").first.focus()
    page.keyboard.press("+")
    assert bar.get_by_text("more like 2").is_visible()
    page.keyboard.press("-")  # a photo is right or wrong
    assert bar.get_by_text("more like 1, less like 1").is_visible()
    assert ranks(page) == plain  # nothing happens before it is asked for
    page.shoot("judged")

    page.keyboard.press("s")
    page.wait_for_url(re.compile(f"like={right}&unlike={wrong}"))
    finished(page)
    first_is(page, right)
    assert wrong not in ranks(page)[:5]
    assert bar.get_by_role("button", name="Search again").get_attribute("aria-disabled") == "true"
    everything = scrolled_to_the_end(page, PHOTOS - 1)
    assert (everything[0], everything[-1]) == (right, wrong)
    assert len(set(everything)) == PHOTOS - 1

    page.reload()  # what was asked for is in the address
    finished(page)
    assert (ranks(page)[0], bar.get_by_text("more like 1, less like 1").is_visible()) == (
        right,
        True,
    )
    page.evaluate("scrollTo(0, 0)")
    bar.get_by_role("button", name="Clear").click()
    page.wait_for_url(lambda url: "like" not in url)
    finished(page)
    first_is(page, wrong)
    assert bar.is_hidden()
    assert page.locator("[data-judged]").count() == 0


def test_marks_wait_for_those_who_look_at_a_photo(site: str, visit: Visit) -> None:
    page = visit(start(site), viewport=PHONE, has_touch=True, is_mobile=True)
    finished(page)
    card = page.locator(".card").nth(2)
    for button in card.locator(".card-action").all():
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 40
    choose(card, "More like this")
    choose(page.locator(".card").nth(1), "Less like this")
    page.shoot("judged-phone")
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths == [PHONE["width"]] * 2
    choose(card, "Attention map")
    page.locator(".facts", has_text="Layer 5").wait_for()
    page.go_back()
    finished(page)
    bar = page.get_by_role("group", name="Marked results")
    bar.get_by_text("more like 1, less like 1").wait_for()
    marked = ranks(page)[2]
    bar.get_by_role("button", name="Search again").tap()
    page.wait_for_url(re.compile(rf"like={marked}"))
    first_is(page, marked)


@pytest.mark.parametrize("narrow", [False, True])
def test_several_photos_make_one_query(
    site: str, collection: Path, visit: Visit, narrow: bool
) -> None:
    given = {"viewport": PHONE, "has_touch": True, "is_mobile": True} if narrow else {}
    page = visit(f"{start(site)}&box=24,18,216,162", **given)
    finished(page)
    alone = ranks(page)
    page.get_by_role("button", name="Another box").click()
    page.wait_for_url(re.compile(rf"box=60,45,180,135&and={QUERY}.24.18.216.162$"))
    finished(page)
    page.go_back()
    finished(page)
    added = alone[3]
    if narrow:
        choose(page.locator(".card").nth(3), "Add to this search")
    else:
        page.locator(".card a").nth(0).focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowRight", "a"):
            page.keyboard.press(key)
    page.wait_for_url(re.compile(f"and={added}"))
    strip = page.get_by_role("list", name="Photos of the query")
    strip.locator(".part").nth(1).locator("img").wait_for()
    page.locator(f".card[data-id='{added}']").wait_for(state="detached")
    assert strip.locator(".part").count() == 2
    assert strip.locator(".part-box").count() == 1

    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add to this search").click()
    chooser.value.set_files(collection / "photos" / "landmark-002" / "view-001.jpg")
    page.wait_for_url(re.compile(rf"and={added},q-"))
    finished(page)
    strip.locator(".part").nth(2).locator("img").wait_for()
    page.shoot("parts-phone" if narrow else "parts")

    strip.get_by_role("button", name="Edit the box of").first.click()
    page.wait_for_url(re.compile(rf"q={added}&"))
    assert parameters(page)["and"].startswith(f"{QUERY}.24.18.216.162,q-")
    finished(page)
    uploaded = strip.get_by_role("button", name="Remove view-001.jpg from the query", exact=True)
    uploaded.click()
    page.wait_for_url(lambda url: "q-" not in url)
    strip.get_by_role("button", name="from the query").first.click()
    page.wait_for_url(re.compile(rf"q={QUERY}&box=24,18,216,162"))
    finished(page)
    page.locator(f".card[data-id='{added}']").wait_for()
    assert strip.count() == 0
    assert ranks(page) == alone
