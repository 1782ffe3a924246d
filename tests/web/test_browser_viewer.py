"""A photo, large: by keyboard alone, with a mouse, with fingers, from an address."""

import re

import pytest
from support.web_browser import VIEWS, Page, Visit, drag, finished, parameters, ranks, until, within

pytest_plugins = ["support.web_browser_fixtures"]

PHONE = {"width": 390, "height": 800}
KNOWN = 4 + VIEWS + 1  # of which the time and the place are known


def opened(page: Page, photo: str) -> None:
    """Waits until the viewer shows a photo and its neighbours."""
    page.wait_for_url(re.compile(rf"[?&]photo={photo}\b"))
    page.locator(".viewer-facts").wait_for()
    page.locator(".viewer-strip a").first.wait_for()
    until(
        page,
        "id => document.querySelector('.viewer-photo').currentSrc.includes(`/photos/${id}/`)",
        photo,
    )


def closed(page: Page, card: str) -> None:
    """Waits until the viewer is gone and a card has the focus."""
    page.locator(".viewer").wait_for(state="detached")
    until(page, "id => document.activeElement.closest('.card')?.dataset.id === id", card)


def percent(page: Page) -> int:
    return int(page.locator(".viewer-zoom").inner_text().split("%")[0])


def middle(page: Page) -> tuple[float, float]:
    """Where the middle of the photo is in the window."""
    return within(page.locator(".viewer-photo"), 0.5, 0.5)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_photo_is_seen_with_the_keyboard_alone(site: str, visit: Visit, width: int) -> None:
    page = visit(f"{site}#/?q=4&rerank=none", viewport={"width": width, "height": 800})
    finished(page)
    press, found = page.keyboard.press, ranks(page)
    page.locator("#main").focus()
    press("ArrowDown")
    press("ArrowRight")
    press("Enter")
    opened(page, found[1])
    page.shoot(f"viewer-{width}")
    name = page.locator(f".card[data-id='{found[1]}'] .card-name").get_attribute("title")
    facts = page.locator(".viewer-facts").inner_text()
    assert all(text in facts for text in (name, "240 × 180", "KiB"))
    assert page.locator(".viewer-strip a").count() == 16
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1] == width
    assert page.title().startswith(name.rpartition("/")[2])

    press("ArrowRight")
    opened(page, found[2])
    before, place = percent(page), middle(page)
    press("+")
    press("+")
    assert percent(page) > 2 * before
    assert middle(page) == pytest.approx(place, abs=1)
    press("Shift+ArrowRight")
    assert middle(page)[0] < place[0] - 10
    press("0")
    assert percent(page) == pytest.approx(before, abs=2)  # the strip below may still be settling
    assert middle(page) == pytest.approx(place, abs=2)
    press("1")
    # The whole of a small photo is larger than that.
    assert percent(page) == pytest.approx(max(100, before), abs=2)
    press("i")
    assert page.locator(".viewer-facts").is_hidden()
    press("i")
    press("?")
    page.get_by_role("heading", name="An open photo").wait_for()
    page.shoot(f"help-{width}")
    press("Escape")
    page.locator("dialog.help").wait_for(state="hidden")
    press("ArrowLeft")
    opened(page, found[1])
    press("ArrowRight")
    opened(page, found[2])
    press("Escape")
    closed(page, found[2])
    assert parameters(page) == {"q": "4", "rerank": "none"}

    press("Enter")
    opened(page, found[2])
    page.reload()  # the list comes after the photo
    opened(page, found[2])
    finished(page)
    press("ArrowRight")
    opened(page, found[3])
    press("ArrowLeft")
    opened(page, found[2])
    for key, there in (("w", f"#/why/4/{found[2]}"), ("m", f"#/match/4/{found[2]}")):
        press(key)
        page.wait_for_url(re.compile(there))
        page.locator(".viewer").wait_for(state="detached")
        page.go_back()
        opened(page, found[2])
    page.go_back()
    closed(page, found[2])
    press("w")  # and back to the same card
    page.locator("#main[data-view=why]").wait_for()
    press("Escape")
    page.locator("#main[data-view=search]").wait_for()
    finished(page)
    page.locator(f".card[data-id='{found[2]}'] a:focus").wait_for()
    press("Enter")
    opened(page, found[2])
    press("q")
    page.wait_for_url(re.compile(rf"#/\?q={found[2]}&rerank=none$"))
    page.locator(".viewer").wait_for(state="detached")
    finished(page)
    assert found[2] not in ranks(page)  # but it was, before


def test_an_address_of_a_photo_can_be_shared(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/?photo={KNOWN}", color_scheme="dark")
    opened(page, str(KNOWN))
    page.shoot("viewer-shared")
    facts = page.locator(".viewer-facts")
    assert "2019-07-14" in facts.inner_text()
    assert facts.get_by_role("link").get_attribute("href") == (
        "https://www.openstreetmap.org/?mlat=48.8582&mlon=2.2945#map=16/48.8582/2.2945"
    )
    with page.expect_download() as saved:
        page.keyboard.press("d")
    assert saved.value.suggested_filename == "view-001.jpg"
    assert page.get_by_role("link", name="What looks alike").count() == 0  # there is no query

    near = page.locator(".viewer-strip a").nth(1)
    other = near.get_attribute("data-id")
    near.click()
    opened(page, other)
    why = page.get_by_role("link", name="What looks alike").get_attribute("href")
    assert why == f"#/why/{KNOWN}/{other}"
    page.keyboard.press("Escape")
    closed(page, other)
    assert page.url == f"{site}#/"
    page.goto(f"{site}#/%E0%A4%A")  # a link that was cut off
    page.locator(".browse .card").first.wait_for()
    gone = visit(f"{site}#/?photo=99999", expected=("404",))
    gone.get_by_role("alert").get_by_text("There is no photo 99999").wait_for()


def test_wheel_and_double_click_zoom_and_a_drag_moves(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/?q=4&rerank=none")
    finished(page)
    first = ranks(page)[0]

    def enlarged(route) -> None:
        told = route.fetch().json()
        route.fulfill(json={**told, "width": 2400, "height": 1800})

    page.route(f"**/api/v1/photos/{first}", enlarged)
    page.locator(".card-main").first.click()
    opened(page, first)
    stage, whole = page.locator(".viewer-stage"), percent(page)
    with page.expect_request(f"**/photos/{first}/original?*"):  # 1600 pixels are not enough now
        page.keyboard.press("1")
    assert percent(page) == 100
    page.keyboard.press("0")
    page.mouse.move(*within(stage, 0.3, 0.3))
    page.mouse.wheel(0, -400)
    until(page, "document.querySelector('.viewer-stage.enlarged')")
    zoomed, place = percent(page), middle(page)
    assert zoomed > 1.5 * whole
    drag(page, within(stage, 0.5, 0.5), within(stage, 0.4, 0.45))
    assert middle(page)[0] < place[0] - 20
    page.mouse.dblclick(*within(stage, 0.5, 0.5))
    assert percent(page) == whole
    page.mouse.dblclick(*within(stage, 0.5, 0.5))
    assert percent(page) > whole
    page.get_by_role("button", name="Whole photo").click()
    assert percent(page) == whole
    page.get_by_role("button", name="Close", exact=True).click()
    closed(page, first)


def test_fingers_pinch_and_swipe(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/?q=4&rerank=none", viewport=PHONE, has_touch=True, is_mobile=True)
    finished(page)
    found = ranks(page)
    page.locator(".card-main").first.tap()
    opened(page, found[0])
    stage, whole = page.locator(".viewer-stage"), percent(page)
    fingers = page.context.new_cdp_session(page)

    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", within(stage, 0.8, 0.5))
    for x in (0.6, 0.4, 0.2):
        touch("touchMove", within(stage, x, 0.51))
    touch("touchEnd")
    opened(page, found[1])
    touch("touchStart", within(stage, 0.45, 0.5), within(stage, 0.55, 0.5))
    for x in (0.1, 0.2, 0.3):
        touch("touchMove", within(stage, 0.45 - x, 0.5), within(stage, 0.55 + x, 0.5))
    touch("touchEnd")
    until(page, "document.querySelector('.viewer-stage.enlarged')")
    assert percent(page) > 2 * whole
    assert parameters(page)["photo"] == found[1]  # an enlarged photo is moved, not left
