"""The page in other conditions: phone, dark, busy, offline, with a token; and its geometry."""

import re
from pathlib import Path

import pytest
from PIL import Image
from support.web_browser import PHONE, PHOTOS, TOKEN, Visit, finished, parameters, within

from solar.demo import toy

pytest_plugins = ["support.web_browser_fixtures"]

VIEWS_TO_SEE = {
    "start": ("#/", ".browse .card"),
    "search": ("#/?q=4&rerank=alpha,verify", ".results:not([aria-busy]) .card"),
    "look": ("#/look/4", ".facts:has-text('Layer')"),
    "match": ("#/match/4/5", ".match .verdict-words"),
    "why": ("#/why/4/5", ".why-pair:not([aria-busy])"),
    "compare": ("#/compare?q=4", ".column:last-child .card"),
    "map": ("#/map", f"canvas[data-pictures='{PHOTOS}']"),
}


def see(page, site: str, name: str) -> None:
    address, sign = VIEWS_TO_SEE[name]
    page.goto(site + address)
    page.locator(sign).first.wait_for(timeout=40_000)


def test_a_phone_shows_every_view_without_scrolling_sideways(site: str, visit: Visit) -> None:
    page = visit(site, viewport=PHONE, has_touch=True, is_mobile=True)
    for name in VIEWS_TO_SEE:
        see(page, site, name)
        page.shoot(f"phone-{name}")
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1] == PHONE["width"], name
        tabs = page.locator(".tabs").bounding_box()
        assert tabs["y"] + tabs["height"] == pytest.approx(PHONE["height"], abs=1), name


@pytest.mark.parametrize("width", [390, 320])
def test_narrow_columns_do_not_scroll_sideways(site: str, visit: Visit, width: int) -> None:
    page = visit(
        f"{site}#/compare?q=4&a.rerank=verify&b.rerank=alpha,verify&set=1",
        viewport={"width": width, "height": 800},
    )
    for at in range(2):
        page.locator(".column").nth(at).locator("[data-stage=verify] em").wait_for()
    page.shoot(f"compare-verified-{width}")
    # Photos move or do not; this is the longest that a stage tells.
    page.locator("[data-stage=verify] em").evaluate_all(
        "all => all.forEach(one => { one.textContent = '132 moved, 10 new in the top 10'; })"
    )
    chips = page.locator(".column .stage-chip")
    assert chips.evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.shoot(f"compare-long-{width}")


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 800}, PHONE])
def test_a_very_high_photo_is_seen_at_once(
    site: str, visit: Visit, tmp_path: Path, viewport: dict[str, int]
) -> None:
    Image.effect_noise((300, 4000), 60).convert("RGB").save(tmp_path / "tower.jpg")
    page = visit(f"{site}#/look", viewport=viewport)
    page.locator("input[type=file]").first.set_input_files(tmp_path / "tower.jpg")
    page.locator(".facts", has_text="Layer").wait_for(timeout=40_000)
    stage = page.locator(".look-stage").bounding_box()
    page.shoot(f"look-tower-{viewport['width']}")
    assert stage["width"] / stage["height"] == pytest.approx(300 / 4000, rel=0.05)
    assert stage["height"] <= 0.71 * viewport["height"]


def test_fingers_draw_only_when_asked(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/?q=4", viewport=PHONE, has_touch=True, is_mobile=True)
    finished(page)
    stage = page.locator(".stage")
    page.touchscreen.tap(*within(stage, 0.5, 0.5))
    assert page.locator(".box").is_hidden()
    page.get_by_role("button", name="Box").tap()
    page.wait_for_url(re.compile("box="))
    assert page.locator(".box").is_visible()
    assert stage.evaluate("one => getComputedStyle(one).touchAction") == "none"
    page.get_by_role("button", name="No box").tap()
    page.wait_for_url(lambda url: "box" not in url)


def test_a_photo_that_is_gone_is_said_so_and_nothing_else_shown(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/look/99999", expected=("404",))
    page.get_by_role("alert").get_by_text("There is no photo 99999").wait_for()
    assert page.locator(".look-stage").count() == 0
    assert page.get_by_role("button", name="Try again").count() == 0


def test_a_box_that_reaches_out_of_the_photo_ends_with_it(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/?q=4&box=120,90,900,900")
    finished(page)
    box, stage = (page.locator(one).bounding_box() for one in (".box", ".stage img"))
    for side, length in (("x", "width"), ("y", "height")):
        assert box[side] + box[length] == pytest.approx(stage[side] + stage[length], abs=3)


def test_dark_follows_the_system_until_somebody_chooses(site: str, visit: Visit) -> None:
    page = visit(site, color_scheme="dark")

    def background() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark, light = "rgb(20, 19, 17)", "rgb(250, 248, 244)"
    for name in VIEWS_TO_SEE:
        see(page, site, name)
        page.shoot(f"dark-{name}")
    assert background() == dark
    page.locator("#theme").click()
    assert background() == light
    page.reload()
    page.locator(".map canvas").wait_for()
    assert background() == light
    page.locator("#theme").click()
    page.locator("#theme").click()
    page.emulate_media(color_scheme="light")
    assert background() == light


def test_everything_has_a_name(site: str, visit: Visit) -> None:
    page = visit(site)
    for name in VIEWS_TO_SEE:
        see(page, site, name)
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('a, button, input, select, img, [tabindex]')]
              .filter(one => one.checkVisibility() && !one.ariaLabel && !one.textContent.trim()
                && !one.labels?.length && one.getAttribute('alt') === null)
              .map(one => one.outerHTML)"""
        )
        assert nameless == [], name


def test_a_busy_server_is_asked_once_more(site: str, visit: Visit) -> None:
    page = visit(site, expected=("503",))
    page.locator(".browse .card").first.wait_for()
    asked = []

    def busy_once(route) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
        else:
            route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "Busy."})

    page.route("**/api/v1/search", busy_once)
    page.get_by_role("link", name="Search with").first.click()
    page.get_by_text("The server is busy; trying again in 1 s.").wait_for()
    finished(page)
    assert len(asked) == 2


def test_a_failure_is_the_servers_sentence_and_a_way_on(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/?q=99999", expected=("404",))
    page.locator(".results .problem").wait_for()
    assert page.locator(".results .problem p").text_content().endswith(".")
    assert page.get_by_role("button", name="Try again").count() == 0  # it would not help
    page.shoot("no-such-photo")
    page.get_by_role("link", name="Start again").click()
    page.locator(".browse .card").first.wait_for()


def test_what_is_no_photo_is_refused_with_a_sentence(
    site: str, visit: Visit, tmp_path: Path
) -> None:
    page = visit(site, expected=("415", "422", "400"))
    page.locator(".browse .card").first.wait_for()
    (tmp_path / "letter.jpg").write_text("Dear browser")
    page.locator("input[type=file]").set_input_files(tmp_path / "letter.jpg")
    toast = page.locator(".toast[data-kind=bad]")
    toast.wait_for()
    assert re.match(r"letter\.jpg.*\.$", toast.text_content())
    assert "PIL" not in toast.text_content()
    assert "#" not in page.url


def test_offline_is_said(site: str, visit: Visit) -> None:
    page = visit(site, expected=("ERR_INTERNET_DISCONNECTED",))
    page.locator(".browse .card").first.wait_for()
    page.context.set_offline(True)
    page.get_by_text("You are offline. What is already on the page stays.").wait_for()
    page.get_by_role("link", name="Search with").first.click()
    page.get_by_text("You are offline: try again once").first.wait_for()
    page.context.set_offline(False)
    page.locator("#banner").wait_for(state="hidden")
    page.get_by_role("button", name="Try again").click()
    finished(page)


def test_a_token_lets_in_and_photos_can_be_added(
    private_site: str, collection: Path, visit: Visit, tmp_path: Path
) -> None:
    page = visit(private_site, expected=("401",))
    page.get_by_label("Token").fill("not this one")
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("Wrong token").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Continue").click()
    image = page.locator(".browse .card img").first
    image.wait_for()
    assert image.evaluate("one => one.decode().then(() => one.naturalWidth)") > 0

    page.get_by_role("link", name="Add", exact=True).click()
    (tmp_path / "letter.jpg").write_text("Dear browser")
    for n in range(2):
        toy.landmark(77, n, size=(240, 180)).save(tmp_path / f"<i>{n}.png")
    photos = [*tmp_path.iterdir(), collection / "photos" / "landmark-000" / "view-001.jpg"]
    page.locator("input[multiple]").set_input_files(photos)
    told = "2 photos added, 1 already in the collection, 1 failed."
    page.locator(".facts", has_text=told).wait_for()
    assert page.locator(".failures li b").all_text_contents() == ["letter.jpg"]
    page.locator(".card").nth(1).wait_for()
    page.locator("#collection", has_text=f"{PHOTOS + 2}").wait_for()
    page.wait_for_load_state("networkidle")
    page.shoot("added")
    page.locator(".card", has_text="<i>0.png").get_by_role("link", name="Search with").click()
    finished(page)
    assert page.locator(".query-name").text_content() == "<i>0.png"


def test_an_update_takes_in_what_has_changed_on_a_phone_by_keyboard(
    private_site: str, private_photos: Path, visit: Visit
) -> None:
    page = visit(private_site, expected=("401",), viewport={"width": 390, "height": 800})
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("link", name="Add", exact=True).click()
    toy.landmark(78, 0, size=(240, 180)).save(private_photos / "new.png")
    start = page.get_by_role("button", name="Update")
    start.focus()
    page.keyboard.press("Enter")
    page.locator(".update .facts", has_text="1 new.").wait_for()
    assert start.evaluate("one => one === document.activeElement")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.shoot("update")
    private_photos.rename(private_photos.with_name("away"))
    start.click()
    page.locator(".update .facts[data-kind=bad]", has_text="holds no photo any more").wait_for()
    assert str(private_photos.parent) not in page.content()
    private_photos.with_name("away").rename(private_photos)


def test_boxes_stay_in_the_photo_whatever_is_done(site: str, visit: Visit) -> None:
    page = visit(site)
    broken = page.evaluate(
        """async () => {
          const boxes = await import('/static/js/boxes.js');
          const photo = { width: 300, height: 200 };
          const any = () => Math.random() * 900 - 300;
          const wrong = [];
          let box = boxes.central(photo);
          for (let n = 0; n < 30000; n++) {
            const edges = ['nw', 'n', 'ne', 'e', 'se', 's', 'sw', 'w'][n % 8];
            const [width, height] = [box[2] - box[0], box[3] - box[1]];
            box = boxes.moved(box, any(), any(), photo);
            const kept = Math.abs(box[2] - box[0] - width) + Math.abs(box[3] - box[1] - height);
            box = boxes.resized(box, edges, any(), any(), photo);
            const inside = box[0] >= 0 && box[1] >= 0 && box[2] <= 300 && box[3] <= 200;
            const large = box[2] - box[0] > 7.999 && box[3] - box[1] > 7.999;
            if (!inside || !large || kept > 1e-6) wrong.push(box);
          }
          const again = boxes.read(boxes.written([1.2, 3.7, 20, 40]));
          return { wrong, again, none: ['', '1,2,3', '5,5,5,9', 'a,b,c,d'].map(boxes.read) };
        }"""
    )
    assert broken == {"wrong": [], "again": [1, 4, 20, 40], "none": [None] * 4}


def test_addresses_can_be_read_back(site: str, visit: Visit) -> None:
    page = visit(site)
    given = {"q": "17", "box": "1,2,3,4", "name": "a/b ü&?#=", "b.model": "x y"}
    back = page.evaluate(
        """async (given) => {
          const route = await import('/static/js/route.js');
          return route.parse(route.address('match', ['q-a_b', 'c/d'], given));
        }""",
        given,
    )
    assert back == {"view": "match", "parts": ["q-a_b", "c/d"], "params": given}


def test_an_address_can_be_shared(site: str, visit: Visit) -> None:
    shared = f"{site}#/?q=9&box=20,30,160,150&rerank=average&name=view"
    page = visit(shared)
    finished(page)
    assert page.get_by_label("Re-ranking").input_value() == "average"
    assert page.get_by_label("Words in the name").input_value() == "view"
    assert page.locator(".box").is_visible()
    assert parameters(page)["box"] == "20,30,160,150"
