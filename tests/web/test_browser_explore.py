"""The map of the collection: never out of sight, its colours, photos that are selected on it."""

import io
from typing import Any

import pytest
from PIL import Image
from support.web_browser import PHOTOS, Page, Visit, drag, until, within

pytest_plugins = ["support.web_browser_fixtures"]


def seen(page: Page) -> int:
    """How many photos are in the window or right beside it, once it is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    return int(page.locator(".map canvas").get_attribute("data-seen"))


def chosen(page: Page) -> int:
    shown = page.locator(".map-selected-title")
    return int(shown.text_content().split()[0]) if shown.is_visible() else 0


def opened(visit: Visit, site: str, **given: Any) -> Page:
    """The map, with all its photos."""
    page = visit(f"{site}#/map", **given)
    page.locator(f"canvas[data-pictures='{PHOTOS}']").wait_for(timeout=40_000)
    return page


def card_inside(page: Page) -> bool:
    """Whether all of the card is on the map."""
    card, room = (page.locator(name).bounding_box() for name in (".map-card", ".map"))
    return all(
        card[at] >= room[at] and card[at] + card[size] <= room[at] + room[size]
        for at, size in (("x", "width"), ("y", "height"))
    )


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_map_is_explored(site: str, visit: Visit, width: int, scheme: str) -> None:
    page = visit(
        f"{site}#/map",
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        permissions=["clipboard-read", "clipboard-write"],
    )
    page.locator(f"canvas[data-pictures='{PHOTOS}']").wait_for(timeout=40_000)
    canvas = page.locator(".map canvas")
    assert f"{PHOTOS} photos." in page.locator(".facts").text_content()
    legend = page.locator(".map-legend")
    assert "look alike" in legend.text_content()
    assert "t-SNE" in legend.text_content()
    assert "landmark-003" in legend.text_content()
    page.shoot(f"explore-{width}-{scheme}")
    legend.get_by_label("Colour by").select_option("date")
    legend.get_by_text("2019-07-14").first.wait_for()
    dates = legend.locator(".map-dates")
    assert dates.evaluate("one => one.scrollWidth <= one.clientWidth")  # beside "no date"
    page.shoot(f"explore-dates-{width}")
    assert "colour=date" in page.url

    # Neither zooming nor dragging leads to where there is nothing.
    canvas.focus()
    for _ in range(25):
        page.keyboard.press("+")
    assert 0 < seen(page) < PHOTOS
    for corner in ((0.1, 0.1), (0.9, 0.9)):
        for _ in range(3):
            drag(page, within(canvas, 0.5, 0.5), within(canvas, *corner))
            assert seen(page) > 0
    page.get_by_role("button", name="Fit").click()
    assert seen(page) == PHOTOS

    page.get_by_role("button", name="Box", exact=True).click()
    drag(page, within(canvas, 0.06, 0.04), within(canvas, 0.5, 0.99))
    some = chosen(page)
    assert 0 < some < PHOTOS
    assert seen(page) == PHOTOS  # the list took room from the map, which shows the same part
    page.shoot(f"explore-selected-{width}-{scheme}")
    listed = page.locator(".map-list span").all_text_contents()
    assert len(listed) == some
    page.get_by_role("button", name="Copy paths").click()
    page.get_by_text(f"{some} paths copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").splitlines() == listed
    page.get_by_role("link", name=listed[-1]).click()
    page.locator("dialog.viewer .viewer-title").wait_for()
    page.keyboard.press("Escape")
    assert chosen(page) == some
    page.get_by_role("button", name="Clear").click()
    assert chosen(page) == 0
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0


@pytest.mark.parametrize("size", [(360, 640), (390, 844), (844, 390)])
def test_the_map_is_high_enough_on_a_phone(site: str, visit: Visit, size: tuple[int, int]) -> None:
    viewport = dict(zip(("width", "height"), size, strict=True))
    page = opened(visit, site, viewport=viewport, has_touch=True, is_mobile=True)
    page.shoot(f"explore-{size[0]}x{size[1]}")
    assert page.locator(".map").bounding_box()["height"] >= 240
    page.get_by_role("button", name="Select view").tap()
    assert chosen(page) == seen(page) == PHOTOS
    assert page.locator(".map").bounding_box()["height"] >= 240
    assert page.locator(".map canvas").bounding_box()["height"] >= 230
    page.shoot(f"explore-selected-{size[0]}x{size[1]}")
    # The page scrolls to the end of the list, which lies above the tabs.
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    shown = page.locator(".map-selected").bounding_box()
    tabs = page.locator(".tabs").bounding_box()
    end = tabs["y"] if size[0] < 761 else size[1]
    assert shown["y"] + shown["height"] <= end
    page.shoot(f"explore-end-{size[0]}x{size[1]}")


def test_a_finger_shows_a_photo_and_opens_it_with_the_second_tap(site: str, visit: Visit) -> None:
    page = opened(
        visit, site, viewport={"width": 390, "height": 664}, has_touch=True, is_mobile=True
    )
    assert "tap a photo twice" in page.locator(".facts").text_content()
    canvas, card = page.locator(".map canvas"), page.locator(".map-card")
    for part in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):  # until a photo is there
        place = within(canvas, part, 0.5)
        page.touchscreen.tap(*place)
        page.wait_for_timeout(100)
        if card.is_visible():
            break
    assert card.is_visible()
    assert "photo=" not in page.url
    name = card.locator("span").text_content()
    page.shoot("explore-tapped")
    page.touchscreen.tap(*place)
    page.locator("dialog.viewer .viewer-title", has_text=name).wait_for()


def test_the_card_of_a_portrait_photo_is_all_on_the_map(site: str, visit: Visit) -> None:
    page = opened(visit, site)
    file = io.BytesIO()
    Image.new("RGB", (240, 480), "tan").save(file, "JPEG")

    def answer(route: Any) -> None:
        route.fulfill(body=file.getvalue(), content_type="image/jpeg")

    page.route("**/thumbnail*", answer)
    page.locator(".map canvas").focus()
    for _ in range(12):  # to a photo far below
        page.keyboard.press("ArrowDown")
    until(page, "document.querySelector('.map-card img').naturalHeight === 480")
    page.wait_for_timeout(100)
    page.shoot("explore-portrait")
    assert card_inside(page)


def test_keys_that_zoom_keep_the_photo(site: str, visit: Visit) -> None:
    page = opened(visit, site)
    canvas, card = page.locator(".map canvas"), page.locator(".map-card")
    canvas.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    name = card.locator("span").text_content()
    for key in ("+", "+", "+", "+", "-", "0"):
        page.keyboard.press(key)
        assert card.is_visible()
        assert card_inside(page)
    page.keyboard.press("Enter")
    page.locator("dialog.viewer .viewer-title", has_text=name).wait_for()


def test_photos_are_selected_by_keyboard(site: str, visit: Visit) -> None:
    page = opened(visit, site)
    press = page.keyboard.press
    press("v")
    assert chosen(page) == PHOTOS
    press("Escape")
    assert chosen(page) == 0
    assert "#/map" in page.url
    press("ArrowDown")  # to the map
    press("ArrowDown")  # to a photo
    press("Space")
    assert chosen(page) == 1
    press("Shift+ArrowRight")
    assert chosen(page) == 2
    press("Space")
    assert chosen(page) == 1
    press("Enter")
    page.locator("dialog.viewer .viewer-title").wait_for()
    press("Escape")
    page.wait_for_url("**/#/map")
    canvas = page.locator(".map canvas")
    page.keyboard.down("Shift")
    drag(page, within(canvas, 0.01, 0.01), within(canvas, 0.99, 0.99))
    page.keyboard.up("Shift")
    assert chosen(page) == PHOTOS


def test_of_a_crowd_some_photos_are_drawn_and_one_stays_in_sight(site: str, visit: Visit) -> None:
    page = visit(site)
    found = page.evaluate(
        """async () => {
          const cameras = await import('/static/js/camera.js');
          const { pictured, pictureSize } = await import('/static/js/map_canvas.js');
          let state = 7;
          const chance = () => (state = (state * 48271) % 2147483647) / 2147483647;
          const points = Array.from({ length: 3000 }, (_, at) => {
            const [x, y] = at % 2 ? [0.1, 0.2] : [0.8, 0.7];
            return { id: at, x: x + 0.1 * chance(), y: y + 0.1 * chance() };
          });
          const [width, height] = [1000, 600];
          const start = cameras.fitted(points, width, height);
          const size = pictureSize(points.length, width, height);
          const shown = pictured(start, points, size);
          const moved = pictured(cameras.panned(start, 17, -9), points, size);
          let empty = 0;
          for (let turn = 0; turn < 200; turn++) {
            const place = [width * chance(), height * chance()];
            let camera = cameras.zoomed(start, 1 + 60 * chance(), place);
            camera = cameras.panned(camera, 9000 * (chance() - 0.5), 9000 * (chance() - 0.5));
            camera = cameras.kept(camera, points, width, height);
            const inside = points.some((point) => {
              const [x, y] = cameras.toScreen(camera, point);
              return x > 0 && y > 0 && x < width && y < height;
            });
            if (!inside) empty += 1;
          }
          return {
            size, empty, shown: shown.length,
            still: shown.every((point, at) => point === moved[at]),
            near: cameras.spacing(points),
          };
        }"""
    )
    assert found["size"] >= 40
    assert 10 < found["shown"] <= 300
    assert found["still"]
    assert found["empty"] == 0
    assert 0.0003 < found["near"] < 0.01
