"""Finding photos and waiting for them: years, the world, suggested boxes, uploads, places kept."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.web_browser import INKED, PHOTOS, Visit, finished, parameters, ranks, until
from support.web_browser_fixtures import served

pytest_plugins = ["support.web_browser_fixtures"]


@pytest.fixture(scope="module")
def dated(filtered: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose photos have times, and one of them a place."""
    own = shutil.copytree(filtered, tmp_path_factory.mktemp("dated") / "i.solar")
    with served(own, "--allow-root", filtered.parent) as url:
        yield url


@pytest.mark.parametrize("width", [1280, 390])
def test_years_and_months_choose_a_time(dated: str, visit: Visit, width: int) -> None:
    page = visit(dated, viewport={"width": width, "height": 800})
    page.get_by_role("button", name="2019, 3", exact=True).click()
    page.wait_for_url(re.compile("from=2019-01-01&to=2019-12-31"))
    until(page, "document.querySelectorAll('.browse .card').length === 3")
    # The photos are what is wanted: no fields stand before them.
    assert page.get_by_label("Taken from").is_hidden()
    assert page.locator(".browse .card img").first.bounding_box()["y"] < 700
    page.get_by_role("button", name="Jul 2019, 3").click()
    page.wait_for_url(re.compile("from=2019-07-01&to=2019-07-31"))
    page.shoot(f"months-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="All years").click()
    page.wait_for_url(lambda url: "from" not in url)


def test_photos_with_a_position_lie_on_the_world(dated: str, visit: Visit) -> None:
    page = visit(f"{dated}#/map")
    page.get_by_label("Arrange").select_option("place")
    page.wait_for_url(re.compile("by=place"))
    page.locator(".facts", has_text="1 photo of").wait_for()
    page.locator("canvas[data-seen='1']").wait_for()
    page.shoot("world")
    assert page.evaluate(INKED) > 0.1  # land


def test_the_map_is_as_close_as_before_a_reload(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/map")
    canvas = page.locator(f"canvas[data-seen='{PHOTOS}']")
    canvas.wait_for()
    for _ in range(5):
        page.keyboard.press("+")
    drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    page.evaluate(drawn)
    seen = page.locator(".map canvas").get_attribute("data-seen")
    assert int(seen or 0) < PHOTOS
    page.reload()
    page.locator(f"canvas[data-seen='{seen}']").wait_for()


def test_a_suggested_box_is_taken_by_one_click(site: str, visit: Visit) -> None:
    page = visit(site)
    page.locator(".browse .card").first.wait_for()
    known = {"rows": [0, 90, 180], "columns": [0, 120, 240], "width": 240, "height": 180}
    heat = [0.05, 0.05, 0.8, 0.1]  # most of it is below on the left
    page.route("**/api/v1/why", lambda route: route.fulfill(json={"a": {**known, "heat": heat}}))
    page.goto(f"{site}#/?q=4&rerank=none")
    offered = page.get_by_role("button", name="Search with part")
    offered.first.wait_for()
    page.shoot("suggested")
    assert offered.count() == 1
    offered.click()
    page.wait_for_url(re.compile("box=0,90,120,180"))
    assert page.locator(".box").is_visible()


def test_a_new_search_begins_at_the_top_and_a_card_has_two_actions(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/?q=4&rerank=none", viewport={"width": 800, "height": 600})
    finished(page)
    card = page.locator(".card").nth(12)
    assert card.locator(".card-action:visible").all_text_contents() == ["Search", "More"]
    card.scroll_into_view_if_needed()
    until(page, "scrollY > 300")
    chosen = ranks(page)[12]
    card.get_by_role("link", name="Search with").click()
    page.wait_for_url(re.compile(rf"q={chosen}\b"))
    finished(page)
    until(page, "scrollY === 0")
    page.go_back()
    until(page, "scrollY > 300")  # and where one was on the way back


def test_help_fits_the_window_and_has_the_verdicts(site: str, visit: Visit) -> None:
    page = visit(site, viewport={"width": 1280, "height": 500})
    page.locator(".browse .card").first.wait_for()
    page.keyboard.press("?")
    box = page.locator("dialog.help").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 500
    close = page.get_by_role("button", name="Close")
    close.scroll_into_view_if_needed()
    assert close.bounding_box()["y"] < 500
    words = page.locator(".legend-words dt").all_text_contents()
    assert words == ["Same place", "Probably the same place", "Similar only"]


def test_an_upload_shows_its_progress_and_can_be_cancelled(
    site: str, collection: Path, visit: Visit
) -> None:
    page = visit(site, expected=("ERR_FAILED",))
    page.locator(".browse .card").first.wait_for()
    page.route("**/api/v1/queries", lambda route: None)  # a server that takes its time
    photo = collection / "photos" / "landmark-002" / "view-001.jpg"
    page.locator("input[type=file]").first.set_input_files(photo)
    toast = page.locator(".toast", has_text="Sending 1 photo")
    toast.locator("progress").wait_for()
    toast.get_by_role("button", name="Cancel").click()
    toast.wait_for(state="detached")
    assert "q" not in parameters(page)
    assert page.locator(".toast").count() == 0


def test_the_checked_order_waits_for_those_who_are_at_the_results(site: str, visit: Visit) -> None:
    page = visit(site)
    page.locator(".browse .card").first.wait_for()
    first = page.evaluate(
        """async () => {
          const body = JSON.stringify({ photo: '4', k: 3, rerank: [] });
          const headers = { 'Content-Type': 'application/json' };
          return (await fetch('/api/v1/search', { method: 'POST', headers, body })).json();
        }"""
    )
    second = {**first, "stage": "verify", "complete": True, "awaited": []}
    second["hits"] = first["hits"][::-1]
    first = {**first, "complete": False, "awaited": ["verify"]}
    page.evaluate(
        """([first, second]) => {
          const plain = window.fetch;
          window.fetch = (address, given) => {
            if (!String(address).endsWith('/search') || given?.method !== 'POST')
              return plain(address, given);
            const lines = new ReadableStream({
              start(out) {
                const bytes = (one) => new TextEncoder().encode(JSON.stringify(one) + '\\n');
                const line = (one) => out.enqueue(bytes(one));
                line(first);
                window.goOn = () => { line(second); out.close(); };
              },
            });
            return Promise.resolve(new Response(lines, { status: 200 }));
          };
          location.hash = '#/?q=4';
        }""",
        [first, second],
    )
    page.get_by_text("Checking details…").wait_for()
    before = ranks(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")  # somebody is at them
    page.evaluate("window.goOn()")
    again = page.get_by_role("button", name="Show the checked order")
    again.wait_for()
    assert ranks(page) == before
    again.click()
    until(page, "() => !document.querySelector('.found-head button:not([hidden])')")
    assert ranks(page) == before[::-1]
