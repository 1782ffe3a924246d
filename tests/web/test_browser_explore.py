"""The map of the collection: never out of sight, its colours, photos that are selected on it."""

import pytest
from support.web_browser import PHOTOS, Page, Visit, drag, within

pytest_plugins = ["support.web_browser_fixtures"]


def seen(page: Page) -> int:
    """How many photos are in the window or right beside it, once it is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    return int(page.locator(".map canvas").get_attribute("data-seen"))


def chosen(page: Page) -> int:
    shown = page.locator(".map-selected-title")
    return int(shown.text_content().split()[0]) if shown.is_visible() else 0


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_map_is_explored(site: str, visit: Visit, width: int, scheme: str) -> None:
    page = visit(
        f"{site}#/explore",
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        permissions=["clipboard-read", "clipboard-write"],
    )
    page.locator(f"canvas[data-pictures='{PHOTOS}']").wait_for(timeout=40_000)
    canvas = page.locator(".map canvas")
    assert f"{PHOTOS} photos, arranged by t-SNE" in page.locator(".facts").text_content()
    legend = page.locator(".map-legend")
    assert "look alike" in legend.text_content()
    assert "landmark-003" in legend.text_content()
    page.shoot(f"explore-{width}-{scheme}")
    legend.locator("select").select_option("date")
    legend.get_by_text("2019-07-14").first.wait_for()
    legend.locator("select").select_option("group")
    legend.get_by_text("group 1").first.wait_for()
    assert "colour=group" in page.url

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


def test_photos_are_selected_by_keyboard(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/explore")
    page.locator(f"canvas[data-pictures='{PHOTOS}']").wait_for(timeout=40_000)
    press = page.keyboard.press
    press("v")
    assert chosen(page) == PHOTOS
    press("Escape")
    assert chosen(page) == 0
    assert "#/explore" in page.url
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
    page.wait_for_url("**/#/explore")
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
          const { grouped, spacing } = await import('/static/js/map/spacing.js');
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
          const groups = grouped(points, 8 * spacing(points));
          return {
            size, empty, shown: shown.length,
            still: shown.every((point, at) => point === moved[at]),
            apart: groups.every((group, at) => group === groups[at % 2]) && groups[0] !== groups[1],
          };
        }"""
    )
    assert found["size"] >= 40
    assert 10 < found["shown"] <= 300
    assert found["still"]
    assert found["empty"] == 0
    assert found["apart"]
