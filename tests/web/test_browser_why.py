"""Why two photos are similar, on the page: with a mouse, a finger, the keyboard."""

import re

import numpy as np
import pytest
from support.web_browser import Page, Visit, finished, parameters, within

from solar.models.contributions import LocatedDescriptor
from solar.show.colours import AGAINST, FOR, signed
from solar.show.explanation import density

pytest_plugins = ["support.web_browser_fixtures"]

POINTED = re.compile(r"This region of the (query|result) .+ \d+\.\d %")


def explained(page: Page) -> None:
    page.locator(".why-pair:not([aria-busy])").wait_for()


def maps(page: Page) -> list[str]:
    return page.locator(".why-stage canvas").evaluate_all("all => all.map(c => c.toDataURL())")


def answered(page: Page) -> list[str]:
    """The maps once a region has its answer, to whose strongest part a line of its own leads."""
    page.locator(".lines .own").wait_for(state="attached")
    return maps(page)


def test_a_result_tells_why_it_was_found(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/?q=4&box=30,20,220,170")
    finished(page)
    card = page.locator(".card").first
    told = card.locator(".verdict p").text_content()
    score, found = re.search(r"similarity ([\d.]+)", told)[1], card.get_attribute("data-id")
    card.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="What looks alike").click()
    page.wait_for_url(re.compile(rf"#/why/4/{found}\?box=30,20,220,170"))
    explained(page)
    page.shoot("why")
    assert page.locator(".why-score").text_content() == score
    assert page.locator(".lines g").count() > 0
    frame, image = (
        page.locator(one).bounding_box()
        for one in (".why-box:visible", ".why-stage:has(.why-box:visible) img")
    )
    assert frame["x"] - image["x"] == pytest.approx(30 / 240 * image["width"], abs=1)
    assert frame["width"] == pytest.approx(190 / 240 * image["width"], abs=1)
    whole = maps(page)
    a, b = page.locator(".why-stage").all()
    places = [one.bounding_box() for one in (a, b)]
    assert places[0]["x"] < places[1]["x"]

    page.mouse.move(*within(a, 0.5, 0.5))
    pointed = answered(page)
    page.shoot("why-region")
    assert POINTED.match(page.locator(".why-text").text_content())[1] == "query"
    assert pointed[0] == whole[0]
    assert pointed[1] != whole[1]
    region, at = page.locator(".region:visible").bounding_box(), within(a, 0.5, 0.5)
    assert region["x"] <= at[0] <= region["x"] + region["width"]
    assert region["y"] <= at[1] <= region["y"] + region["height"]
    page.mouse.move(*within(a, 0.02, 0.02))  # beyond the box
    assert maps(page) == whole
    assert page.locator(".region:visible").count() == 0

    page.mouse.click(*within(b, 0.3, 0.4))
    kept = answered(page)
    assert (kept[0] != whole[0], kept[1] == whole[1]) == (True, True)
    page.mouse.move(*within(a, 0.5, 0.5))
    assert maps(page) == kept  # what was clicked stays
    page.keyboard.press("Escape")
    assert maps(page) == whole
    assert [one.bounding_box() for one in (a, b)] == places  # nothing has moved

    page.get_by_label("Opacity").fill("0")
    assert a.locator("canvas").evaluate("c => getComputedStyle(c).opacity") == "0"
    page.get_by_role("switch", name="Lines").uncheck()
    assert page.locator(".lines.none").count() == 1
    page.reload()
    explained(page)
    assert page.get_by_label("Opacity").input_value() == "0"
    assert parameters(page)["box"] == "30,20,220,170"


def test_a_finger_and_the_keyboard_ask_regions_on_a_phone(site: str, visit: Visit) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = visit(f"{site}#/?q=4", **phone)
    finished(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("w")
    page.wait_for_url(re.compile("#/why/4/"))
    explained(page)
    whole = maps(page)
    a, b = page.locator(".why-stage").all()
    above, below = a.bounding_box(), b.bounding_box()
    assert above["y"] + above["height"] < below["y"]
    ends = page.locator(".lines .seen").first.evaluate(
        "l => [l.y1, l.y2].map(y => y.baseVal.value)"
    )
    assert ends[0] < ends[1]  # downwards

    page.touchscreen.tap(*within(b, 0.6, 0.6))
    tapped = answered(page)
    page.shoot("phone-why-region")
    assert POINTED.match(page.locator(".why-text").text_content())[1] == "result"
    assert tapped[0] != whole[0]
    page.touchscreen.tap(*within(b, 0.6, 0.6))  # once more lets go
    assert maps(page) == whole

    a.focus()
    page.keyboard.press("ArrowRight")  # begins with the strongest region
    strongest = answered(page)
    assert strongest[1] != whole[1]
    before = page.locator(".region:visible").bounding_box()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    after = page.locator(".region:visible").bounding_box()
    assert (after["x"] < before["x"]) or before["x"] == pytest.approx(above["x"], abs=1)
    page.keyboard.press("Tab")
    assert b.evaluate("one => one === document.activeElement")
    page.keyboard.press("ArrowLeft")
    page.locator(".why-text", has_text="of the result").wait_for()
    assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [390, 390]
    page.locator(".why-scene[data-verdict]").wait_for()
    # The page may have scrolled, but neither photo has moved from the other.
    moved = above["y"] - a.bounding_box()["y"]
    for photo, before in ((a, above), (b, below)):
        assert photo.bounding_box() == {**before, "y": before["y"] - moved}
    page.keyboard.press("Escape")
    assert page.locator(".region:visible").count() == 0
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"#/\?q=4"))


def test_only_the_newest_region_is_asked_and_none_twice(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/why/4/5")
    explained(page)
    stage, held, asked = page.locator(".why-stage").first, [], []

    def hold_first(route) -> None:
        asked.append(route.request.post_data_json)
        if len(asked) == 1:
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/v1/why/answers", hold_first)
    whole = maps(page)
    page.mouse.move(*within(stage, 0.1, 0.1))
    page.wait_for_timeout(100)
    for x in (0.4, 0.6, 0.9):  # while the first is under way
        page.mouse.move(*within(stage, x, 0.9))
    assert len(asked) == 1
    held[0].continue_()
    last = answered(page)
    assert last != whole
    assert [(one["x"] > 160, one["y"] > 90) for one in asked] == [(False, False), (True, True)]
    page.mouse.move(*within(stage, 0.1, 0.1))  # known by now
    assert answered(page) not in (last, whole)
    page.mouse.move(*within(stage, 0.9, 0.9))
    assert answered(page) == last
    assert len(asked) == 2


def test_a_photo_that_is_gone_cannot_be_explained(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/why/4/99999", expected=("404",))
    page.get_by_role("alert").get_by_text("There is no photo 99999").wait_for()
    assert page.locator(".why-stage").count() == 0


def test_evidence_is_drawn_as_the_command_line_does(site: str, visit: Visit) -> None:
    rng = np.random.default_rng(0)
    heat = rng.normal(size=(3, 4)).astype(np.float32)
    rows, columns = np.array([3.0, 8, 14, 24]), np.array([2.0, 9, 15, 22, 33])
    vectors = np.zeros((3, 4, 1), np.float32)
    photo = LocatedDescriptor(vectors, vectors[0, 0], rows, columns, (36, 27))
    drawn = density(photo, heat, (360, 270))
    expected = signed(drawn, 0.5 * float(np.abs(drawn).max()))
    page = visit(site)
    given = {"rows": rows.tolist(), "columns": columns.tolist(), "width": 36, "height": 27}
    pixels, colours = page.evaluate(
        """async ([photo, heat, most]) => {
          const { density, drawEvidence } = await import('/static/js/heat.js');
          const { FOR, AGAINST } = await import('/static/js/colours.js');
          const canvas = document.createElement('canvas');
          drawEvidence(canvas, photo, density(photo, heat), most);
          const { data } = canvas.getContext('2d').getImageData(0, 0, 360, 270);
          const sixth = data.filter((_, at) => Math.floor(at / (4 * 360)) % 6 === 0);
          return [[...sixth], [FOR, AGAINST]];
        }""",
        [given, heat.ravel().tolist(), 0.5 * float(np.abs(drawn).max())],
    )
    assert colours == [list(FOR), list(AGAINST)]
    seen, expected = np.array(pixels).reshape(45, 360, 4), expected[::6]
    np.testing.assert_allclose(seen[..., 3], expected[..., 3], atol=1)
    strong = expected[..., 3] > 128
    np.testing.assert_allclose(seen[strong, :3], expected[strong, :3], atol=1)
