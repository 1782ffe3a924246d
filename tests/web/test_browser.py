"""What people do on the page, in a real Chromium against a real server."""

import re
from pathlib import Path

import pytest
from support.web_browser import (
    PHOTOS,
    VIEWS,
    Visit,
    drag,
    finished,
    parameters,
    ranks,
    until,
    within,
)

pytest_plugins = ["support.web_browser_fixtures"]

# Ids of the cards, as they are shown.
SHOWN = "[...document.querySelectorAll('.card')].map(card => card.dataset.id).join()"


def first_of(site: str, landmark: int) -> str:
    """The address of a search with a landmark's first photo; distractors come before them all."""
    return f"{site}#/?q={4 + landmark * VIEWS}"


def test_upload_draw_a_box_search_and_go_back(site: str, collection: Path, visit: Visit) -> None:
    page = visit(site)
    page.locator(".browse .card").first.wait_for()
    page.shoot("start")
    photo = collection / "photos" / "landmark-002" / "view-001.jpg"
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a photo").click()
    chooser.value.set_files(photo)
    finished(page)
    assert page.locator(".card-name").first.get_attribute("title") == "landmark-002/view-001.jpg"
    assert "similarity 1.000" in page.locator(".card .verdict").first.text_content()
    whole = ranks(page)

    stage = page.locator(".stage")
    drag(page, within(stage, 0.3, 0.2), within(stage, 0.6, 0.7))
    page.wait_for_url(re.compile("box="))
    until(page, f"() => {SHOWN} !== '{','.join(whole)}'")
    finished(page)
    page.shoot("box")
    drawn = [float(edge) for edge in parameters(page)["box"].split(",")]
    assert drawn == pytest.approx([72, 36, 144, 126], abs=2)

    drag(page, within(stage, 0.45, 0.45), within(stage, 0.55, 0.45))
    page.wait_for_url(re.compile(r"box=(9[5-7])"))
    drag(page, within(page.locator(".box"), 1, 1), within(stage, 0.95, 0.95))
    page.wait_for_url(re.compile(r"box=\d+,\d+,22[5-9],"))
    for _ in range(3):
        page.go_back()
    page.wait_for_url(lambda url: "box" not in url)
    until(page, f"() => {SHOWN} === '{','.join(whole)}'")
    assert page.locator(".box").is_hidden()
    page.go_forward()
    page.wait_for_url(re.compile("box="))
    assert page.locator(".box").is_visible()


def test_more_results_come_with_scrolling(site: str, visit: Visit) -> None:
    page = visit(first_of(site, 0))
    finished(page)
    others = PHOTOS - 1
    assert page.locator(".card").count() < others
    page.mouse.move(800, 500)
    for _ in range(20):
        page.mouse.wheel(0, 3000)
        if page.locator(".card").count() == others:
            break
        page.wait_for_timeout(100)
    assert len(set(ranks(page))) == others


def test_verification_and_expansion_tell_what_they_changed(site: str, visit: Visit) -> None:
    page = visit(f"{first_of(site, 0)}&rerank=none")
    finished(page)
    plain = ranks(page)
    assert page.locator(".verdict").count() == 0  # similarities alone are no verdict
    page.locator(".panel summary", has_text="Advanced").click()
    page.get_by_label("Re-ranking").select_option("alpha")
    page.locator(".stage-chip[data-stage=expand]").wait_for(state="attached")
    page.get_by_role("switch", name="Geometric verification").check()
    page.locator(".stage-chip[data-stage=verify]").wait_for(state="attached")
    finished(page)
    page.shoot("verified")
    chips = page.locator(".stage-chip").all_text_contents()
    assert [re.match("[A-Z][a-z]+", chip)[0] for chip in chips] == [
        *("Embedding", "Search", "Expansion", "Verification")
    ]
    assert all(re.search(r"\d m?s", chip) for chip in chips)
    assert "moved" in chips[-1]
    after = ranks(page)
    assert after != plain
    told = page.locator(".card .verdict p").all_text_contents()
    moves = [re.search(r"(\d+) places? (up|down)", text) for text in told]
    assert any(moves), "something must have moved"
    for photo, move in zip(after, moves, strict=True):
        if move and photo in plain:
            up = plain.index(photo) - after.index(photo)
            assert (int(move[1]), move[2]) == (abs(up), "up" if up > 0 else "down")
    page.go_back()
    page.go_back()
    page.wait_for_url(lambda url: url.endswith("rerank=none"))
    assert ranks(page) == plain
    assert not page.get_by_role("switch", name="Geometric verification").is_checked()


def test_ground_truth_is_green_and_red_for_who_asks(site: str, visit: Visit) -> None:
    page = visit(first_of(site, 1))
    finished(page)
    assert page.locator(".card[data-truth]").count() == 0
    page.locator(".panel summary", has_text="Advanced").click()
    page.get_by_role("switch", name="Mark right and wrong").check()
    page.wait_for_url(re.compile("truth=1"))
    right = page.locator(".card[data-truth=right]")
    names = right.locator(".card-name").evaluate_all("all => all.map(one => one.title)")
    assert names
    assert all(name.startswith("landmark-001/") for name in names)
    facts = right.locator(".card-facts")
    assert facts.all_inner_texts() == ["2019-07-14"]
    wrong = page.locator(".card[data-truth=wrong] .card-main").first
    colours = [
        one.evaluate("one => getComputedStyle(one, '::after').borderTopColor")
        for one in (right.locator(".card-main").first, wrong)
    ]
    assert colours == ["rgb(22, 129, 74)", "rgb(201, 58, 50)"]


def test_filters_narrow_the_results(site: str, visit: Visit) -> None:
    page = visit(first_of(site, 1))
    finished(page)
    page.keyboard.press("f")
    page.get_by_label("Words in the name").fill("view-003")
    page.wait_for_url(re.compile("name=view-003"))
    until(page, "document.querySelectorAll('.card').length === 8")
    names = page.locator(".card-name").evaluate_all("all => all.map(one => one.title)")
    assert len(names) == 8
    assert all("view-003" in name for name in names)
    page.get_by_label("Label is").fill("landmark-004")
    until(page, "document.querySelectorAll('.card').length === 1")
    assert page.locator(".card-name").first.get_attribute("title") == "landmark-004/view-003.jpg"
    page.locator(".panel summary", has_text="Advanced").click()
    page.get_by_label("Score at least").fill("2")  # the nearest that there is
    page.wait_for_url(re.compile("min=1"))
    page.get_by_text("No results match these filters").wait_for()


def test_a_click_shows_where_a_location_looks(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/look/10")
    facts = page.locator(".facts", has_text="Layer 5")
    facts.wait_for()
    canvas = page.locator("canvas.heat")

    def heat() -> str:
        return canvas.evaluate("canvas => canvas.toDataURL()")

    middle = heat()
    stage = page.locator(".look-stage")
    page.mouse.click(*within(stage, 0.25, 0.75))
    page.wait_for_url(re.compile("x=60&y=135"))
    page.locator(".look-stage:not([aria-busy])").wait_for()
    clicked = heat()
    assert clicked != middle
    star = page.locator(".star").bounding_box()
    place = within(stage, 0.25, 0.75)
    assert star["x"] + star["width"] / 2 == pytest.approx(place[0], abs=2)
    assert star["y"] + star["height"] / 2 == pytest.approx(place[1], abs=2)
    page.shoot("look")

    page.get_by_label("Layer").select_option("4")
    page.locator(".facts", has_text="Layer 4").wait_for()
    assert heat() != clicked
    page.get_by_label("Opacity").fill("20")
    assert canvas.evaluate("canvas => canvas.style.opacity") == "0.2"


def test_the_page_colours_as_the_command_line_does(site: str, visit: Visit) -> None:
    from solar.show.colours import COLOURS

    page = visit(site)
    table = page.evaluate("async () => (await import('/static/js/colours.js')).EMBER")
    assert table == COLOURS["ember"].tolist()


def test_matches_are_lines_between_two_photos(site: str, visit: Visit) -> None:
    page = visit(f"{first_of(site, 0)}&rerank=verify")
    finished(page)
    page.locator(".stage-chip[data-stage=verify]").wait_for(state="attached")
    before = ranks(page)
    page.mouse.wheel(0, 120)
    page.wait_for_timeout(100)
    scrolled = page.evaluate("scrollY")
    page.locator(".card").nth(1).get_by_role("button", name="More").click()
    page.shoot("menu")
    page.get_by_role("menuitem", name="Matching details").click()
    lines = page.locator(".lines g")
    lines.first.wait_for(state="attached")
    verdict = page.locator(".match .verdict-words")
    verdict.get_by_text("The details match.").wait_for()
    assert re.search(r"\d+ details of both", page.locator(".facts").text_content())
    page.shoot("match")
    ends = lines.first.locator(".seen").evaluate("l => [l.x1, l.x2].map(x => x.baseVal.value)")
    photos = [image.bounding_box() for image in page.locator(".pair img").all()]
    left = page.locator(".pair").bounding_box()["x"]
    for end, photo in zip(ends, photos, strict=True):
        assert photo["x"] <= left + end <= photo["x"] + photo["width"]
    lines.first.locator("circle").first.dispatch_event("pointerover", {"bubbles": True})
    assert page.locator(".pair.one g.over").count() == 1
    page.get_by_role("button", name="Back").click()
    finished(page)
    assert ranks(page) == before
    assert page.evaluate("scrollY") == pytest.approx(scrolled, abs=2)
    same = page.locator(".verdict[data-verdict=same] summary")
    assert set(same.all_text_contents()) == {"Same place"}
    assert page.locator(".verdict").count() == page.locator(".card").count()
    likely = page.locator(".verdict:not([data-verdict=similar])").count()
    assert page.locator(".found").text_content() == f"{likely} likely the same place"
    page.goto(f"{site}#/match/0/{first_of(site, 0).rpartition('=')[2]}")  # has nothing of it
    verdict.get_by_text("Not confirmed.").wait_for()
    assert page.locator(".pair img").count() == 2
    assert page.locator(".lines g:not(.faint)").count() == 0
    assert "details" in page.locator(".facts").text_content()
    page.shoot("match-none")


def test_compare_two_models_side_by_side(site: str, visit: Visit) -> None:
    page = visit(f"{first_of(site, 3).replace('#/', '#/compare')}")
    columns = page.locator(".column")
    for number in range(2):
        columns.nth(number).locator(".verdict b").first.wait_for()
    a, b = (
        column.locator(".card").evaluate_all("all => all.map(c => c.dataset.id)")
        for column in columns.all()
    )
    assert str(4 + 3 * VIEWS) not in {*a, *b}  # the query itself
    assert a != b
    assert columns.nth(0).get_by_label("Model").input_value() == "small"
    assert columns.nth(1).get_by_label("Model").input_value() == "other"
    columns.nth(0).locator(".card").nth(1).hover()
    assert page.locator(".card.same").count() in (1, 2)
    note = columns.nth(0).locator(".beside").nth(1).text_content()
    assert note == (f"B {b.index(a[1]) + 1}" if a[1] in b else "not in B")
    page.shoot("compare")
    page.get_by_role("button", name="Swap").click()
    page.wait_for_url(re.compile("a.model=other"))
    page.wait_for_timeout(100)
    swapped = columns.nth(0).locator(".card").evaluate_all("all => all.map(c => c.dataset.id)")
    assert swapped == b
    columns.nth(1).get_by_role("switch").check()
    columns.nth(1).locator(".stage-chip[data-stage=verify]").wait_for(state="attached")


def test_explore_the_map_and_search_from_it(site: str, visit: Visit) -> None:
    page = visit(f"{site}#/map")
    canvas = page.locator(".map canvas")
    canvas.wait_for(timeout=40_000)
    photo, x, y = page.evaluate(
        """async () => {
          const cameras = await import('/static/js/camera.js');
          const { points } = await (await fetch('/api/v1/map')).json();
          const { width, height } = document.querySelector('.map').getBoundingClientRect();
          const point = points.reduce((a, b) => (a.x > b.x ? a : b));
          return [point.id, ...cameras.toScreen(cameras.fitted(points, width, height), point)];
        }"""
    )
    page.locator(f"canvas[data-pictures='{PHOTOS}']").wait_for()
    page.shoot("explore")
    bounds = canvas.bounding_box()
    page.mouse.move(bounds["x"] + x, bounds["y"] + y)
    card = page.locator(".map-card")
    card.locator("img").wait_for()
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(150)
    assert canvas.evaluate("canvas => canvas.toDataURL()") != before
    page.mouse.click(bounds["x"] + x, bounds["y"] + y)
    page.wait_for_url(re.compile(rf"#/map\?photo={photo}$"))
    page.locator("dialog.viewer .viewer-title").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile("#/map$"))
    page.locator("dialog.viewer").wait_for(state="detached")
    page.mouse.move(bounds["x"] + x, bounds["y"] + y + 1)
    card.locator("img").wait_for()
    page.keyboard.press("q")
    page.wait_for_url(re.compile(rf"#/\?q={photo}$"))
    finished(page)
    page.go_back()
    canvas.wait_for()


def test_everything_works_with_the_keyboard_alone(site: str, visit: Visit) -> None:
    page = visit(site)
    page.locator(".browse .card").first.wait_for()
    press = page.keyboard.press
    press("?")
    page.get_by_role("heading", name="Keyboard").wait_for()
    page.shoot("help")
    press("Escape")
    press("/")
    page.keyboard.type("landmark-005")
    press("Enter")  # before anything was found: the first card takes the focus when it comes
    first = 4 + 5 * VIEWS
    until(page, f"document.activeElement.closest('.card')?.dataset.id === '{first}'")
    press("ArrowRight")
    chosen = str(first + 1)
    until(page, f"document.activeElement.closest('.card')?.dataset.id === '{chosen}'")
    press("q")
    page.wait_for_url(re.compile(rf"q={chosen}"))
    finished(page)
    press("b")
    page.wait_for_url(re.compile("box=60,45,180,135"))
    press("ArrowRight")
    press("Shift+ArrowDown")
    page.wait_for_url(re.compile("box=65,45,185,140"))
    press("Delete")
    page.wait_for_url(lambda url: "box" not in url)
    finished(page)
    page.locator("#main").focus()
    press("ArrowDown")
    press("ArrowRight")
    second = ranks(page)[1]
    press("m")
    page.wait_for_url(re.compile(f"#/match/{chosen}/{second}"))
    press("Escape")
    page.wait_for_url(re.compile(rf"#/\?.*q={chosen}"))
    finished(page)
    press("l")  # into the query, or into the card one came from once going back has focused it
    page.wait_for_url(re.compile(f"#/look/({chosen}|{second})"))
    page.locator(".facts", has_text="Layer 5").wait_for()
    page.locator(".look-stage").focus()
    press("ArrowLeft")
    page.wait_for_url(re.compile("x="))
    press("e")
    page.locator(".map canvas").wait_for(timeout=40_000)
    press("ArrowDown")
    press("ArrowDown")
    page.locator(".map-card img").wait_for()
    press("Enter")
    page.locator("dialog.viewer [data-key=q]").wait_for()
    press("q")
    page.wait_for_url(re.compile(r"#/\?q="))


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_photos_can_be_pasted_and_dropped(site: str, visit: Visit, way: str) -> None:
    page = visit(site)
    page.locator(".browse .card").first.wait_for()
    page.evaluate(
        """async (way) => {
          const picture = await (await fetch('/api/v1/photos/7/photo')).blob();
          const carried = new DataTransfer();
          const type = 'image/jpeg';
          carried.items.add(new File([picture], 'mine.jpg', { type }));
          if (way === 'drop') carried.items.add(new File([picture], 'too.jpg', { type }));
          const given = { bubbles: true, cancelable: true };
          dispatchEvent(way === 'paste'
            ? new ClipboardEvent('paste', { ...given, clipboardData: carried })
            : new DragEvent('drop', { ...given, dataTransfer: carried }));
        }""",
        way,
    )
    page.wait_for_url(re.compile(r"q=q-"))
    finished(page)
    assert page.locator(".query-name").text_content() == "mine.jpg"
    assert parameters(page).get("and", "").startswith("q-") == (way == "drop")
    assert ranks(page)[0] == "7"
