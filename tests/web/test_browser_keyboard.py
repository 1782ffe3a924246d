"""A full round by keyboard alone: the focus is never lost or hidden, and nothing is a trap."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.drawn_report import drawn_group
from support.web_browser import PHOTOS, Page, Visit, finished, until
from support.web_browser_fixtures import served

from solar.albums.report import GroupPhoto, GroupReport, PhotoGroup
from solar.near_duplicates.report import DuplicateReport

pytest_plugins = ["support.web_browser_fixtures"]

ALBUMS = 3
FOCUS = """() => {
  const one = document.activeElement;
  const { left, top, right, bottom } = one.getBoundingClientRect();
  const [x, y] = [(left + right) / 2, (top + bottom) / 2].map(Math.round);
  const over = document.elementFromPoint(Math.min(x, innerWidth - 1), Math.min(y, innerHeight - 1));
  const { outlineStyle } = getComputedStyle(one);
  return {
    lost: one === document.body,
    whole: one.matches('main, dialog'),  // where keys go while nothing in particular is chosen
    hidden: bottom <= 0 || top >= innerHeight || !(one.contains(over) || over?.contains(one)),
    marked: outlineStyle !== 'none' || one.matches('.menu-item'),  // those have a ground instead
    over: over?.outerHTML.slice(0, 80),
    name: one.ariaLabel ?? one.labels?.[0]?.textContent ?? one.textContent.trim().slice(0, 60),
  };
}"""


@pytest.fixture(scope="module")
def desk(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of a collection of its own, which may change, with albums and duplicates."""
    home = tmp_path_factory.mktemp("keyboard")
    for name in ("photos", "small.solar"):
        shutil.copytree(collection / name, home / name)
    three = [
        [f"landmark-00{place}/view-00{view}.jpg" for view in range(3)] for place in range(ALBUMS)
    ]
    groups = [PhotoGroup(tuple(GroupPhoto(one, 2, 30, 0.9) for one in some), 3) for some in three]
    GroupReport(PHOTOS, groups).write(home / "small.groups.json")
    pairs = [drawn_group(kind, three[at][:2]) for at, kind in enumerate(("copy", "crop", "burst"))]
    DuplicateReport(PHOTOS, pairs).write(home / "small.duplicates.json")
    with served(home / "small.solar", "--photos", home / "photos", "--writable") as url:
        yield url


class Keyboard:
    """Presses keys, and insists that somebody can see where the focus is."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def at(self) -> str:
        """The name of what has the focus."""
        drawn = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
        self.page.evaluate(drawn)
        focus = self.page.evaluate(FOCUS)
        assert not focus["lost"], str(focus)
        assert focus["whole"] or (focus["marked"] and not focus["hidden"]), str(focus)
        return str(focus["name"])

    def press(self, *keys: str) -> str:
        for key in keys:
            self.page.keyboard.press(key)
            name = self.at()
        return name

    def tab_to(self, name: str, way: str = "Tab", most: int = 40) -> None:
        """Presses Tab until something of that name has the focus."""
        passed: list[str] = []
        for _ in range(most):
            self.page.keyboard.press(way)
            if self.page.evaluate(FOCUS)["lost"]:
                continue  # the browser's own bar, from which the page begins again
            passed.append(self.at())
            if re.match(name, passed[-1]):
                return
        raise AssertionError(f"{name} cannot be reached with {way}, only {passed}")


def card(page: Page) -> str:
    """The name of the photo whose card has the focus."""
    return str(page.locator(".card a:focus").get_attribute("title"))


@pytest.mark.parametrize("width", [1280, 390])
def test_a_full_round_by_keyboard_alone(
    desk: str, collection: Path, visit: Visit, width: int
) -> None:
    page = visit(desk, viewport={"width": width, "height": 800})
    page.on("filechooser", lambda _: None)  # Playwright begins to watch for them slowly
    keys = Keyboard(page)
    page.locator(".browse .card").first.wait_for()

    # A photo by its name, seen large, and the next one
    keys.press("/")
    page.keyboard.type("landmark-002/")
    until(page, "document.querySelectorAll('.browse .card').length === 6")
    keys.press("Enter", "ArrowRight")
    found = card(page)
    assert found == "landmark-002/view-001.jpg"
    keys.press("Enter")
    page.locator(".viewer-facts").wait_for()
    for _ in range(5):  # beyond the last one
        keys.press("ArrowRight")
    keys.tab_to("Previous photo")
    for _ in range(6):  # beyond the first one
        keys.press("Enter")
    page.locator(".viewer-title", has_text="view-000").wait_for()
    keys.press("ArrowRight")
    keys.press("Escape")
    assert card(page) == found

    # What is like it, and the details of two
    keys.press("q")
    page.locator("#main[data-view=search] .results").wait_for()
    finished(page)
    keys.press("ArrowDown", "ArrowRight")
    second = card(page)
    keys.press("m")
    page.locator(".match .facts b").wait_for()
    keys.tab_to("Search with the result")
    keys.press("Escape")
    finished(page)
    page.locator(f".card a:focus[title='{second}']").wait_for()
    keys.press("+", "ArrowRight", "-")
    bar = page.get_by_role("group", name="Marked results")
    assert bar.get_by_text("more like 1, less like 1").is_visible()
    page.keyboard.press("s")  # until the results are there, the old ones are
    page.wait_for_url(re.compile(r"[&?]like=\d+.*unlike=\d+|unlike=\d+.*[&?]like=\d+"))
    finished(page)
    keys.at()

    # A part of the photo, and all of it again
    keys.press("b", "ArrowRight")
    page.wait_for_url(re.compile("box="))
    finished(page)
    keys.press("Delete")
    assert keys.at() == "Box"

    # A time, and filters that go again
    page.goto(f"{desk}#/?name=landmark&folder=landmark-001/")
    until(page, "document.querySelectorAll('.browse .card').length === 6")
    keys.tab_to("Remove the filter: Named")
    keys.press("Enter")
    assert keys.at().startswith("Remove the filter: Folder")
    keys.press("Enter")
    until(page, "document.querySelectorAll('.browse .card').length > 6")
    keys.at()

    # A photo is removed, put back from the notice, and from the list
    keys.press("ArrowDown", "ArrowRight")
    gone = card(page)
    keys.tab_to("More: ")
    keys.press("Enter", "ArrowUp", "Enter")
    keys.tab_to("Remove 1 photo")
    keys.press("Enter")
    page.get_by_text("1 photo removed.").wait_for()
    after = card(page)
    assert after != gone
    keys.tab_to("Undo")
    keys.press("Enter")
    page.get_by_text("1 photo put back.").wait_for()
    page.locator(f".card a:focus[title='{after}']").wait_for()
    keys.tab_to("More: ")
    keys.press("Enter", "ArrowUp", "Enter")
    keys.tab_to("Remove 1 photo")
    keys.press("Enter")
    page.get_by_text("1 photo removed.").wait_for()
    assert card(page) != after
    keys.press("u")
    page.locator(f".card-name[title='{after}']").wait_for(state="attached")
    keys.at()
    keys.press("Shift+X")
    page.get_by_text("1 selected").wait_for()
    keys.tab_to("Remove$")
    keys.press("Enter")
    keys.tab_to("Remove 1 photo")
    keys.press("Enter")
    page.get_by_text("1 photo removed.").first.wait_for()
    keys.tab_to("Advanced", way="Shift+Tab", most=80)
    keys.press("Enter", "ArrowUp", "Enter")
    page.locator("#main[data-view=removed]").wait_for()
    keys.tab_to("Put back")
    keys.press("Enter")
    page.get_by_text("No photo was removed.").wait_for()
    keys.at()

    # Albums: one is opened, named, and left again
    keys.press("g")
    page.locator(".album-card").nth(ALBUMS - 1).wait_for()
    keys.press("ArrowDown", "ArrowRight", "Enter")
    page.locator(".view-title", has_text="landmark-001").wait_for()
    page.once("dialog", lambda asked: asked.accept("Our house"))
    keys.tab_to("Rename")
    keys.press("Enter")
    page.locator(".view-title", has_text="Our house").wait_for()
    keys.press("Escape")
    page.locator(".album-card a:focus[aria-label^='Our house']").wait_for()
    page.once("dialog", lambda asked: asked.accept(""))
    keys.press("Enter")
    keys.tab_to("Rename")
    keys.press("Enter")
    page.locator(".view-title", has_text="landmark-001").wait_for()

    # Duplicates: decided, laid over each other, taken back
    keys.press("d")
    page.locator(".dup-body:not([aria-busy])").wait_for()
    keys.press("2", "Enter")
    page.get_by_text("1 of 3 decided").first.wait_for()
    keys.press("n", "s", "ArrowRight", "s", "u", "u", "u")
    page.get_by_text("0 of 3 decided").first.wait_for()
    keys.tab_to("OK, next")
    keys.press("x", "Escape")

    # The map, help, and a photo of one's own
    keys.press("e")
    page.locator(f"canvas[data-pictures='{PHOTOS}']").wait_for(timeout=40_000)
    keys.press("ArrowDown", "ArrowDown", "Space", "+", "Enter")
    page.locator(".viewer-facts").wait_for()
    keys.press("Escape")
    page.locator(".viewer").wait_for(state="detached")
    keys.press("Escape", "?")
    keys.tab_to("Close")
    keys.press("Enter")
    page.locator("#help-dialog").wait_for(state="hidden")
    page.goto(f"{desk}#/add")
    keys.tab_to("Choose photos")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(collection / "photos" / "landmark-000" / "view-000.jpg")
    page.get_by_text("already in the collection").first.wait_for()
    assert keys.at() == "Choose photos"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.shoot(f"keyboard-{width}-{scheme}")
