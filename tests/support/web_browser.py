"""What a person does in a browser, for the tests of the page."""

import time
from collections.abc import Callable
from typing import Any, TypeAlias

LANDMARKS, VIEWS, DISTRACTORS = 8, 6, 4
PHOTOS = LANDMARKS * VIEWS + DISTRACTORS
TOKEN = "open-sesame"
PHONE = {"width": 360, "height": 720}
INKED = """() => {
  const canvas = document.querySelector('.map canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((value, at) => at % 4 === 3 && value > 0).length / (data.length / 4);
}"""
"""The share of the map that is drawn on."""

Page: TypeAlias = Any  # Playwright's, which is not everywhere
Visit: TypeAlias = Callable[..., Page]


def ranks(page: Page) -> list[str]:
    """Ids of the cards, as they are shown."""
    return page.locator(".card").evaluate_all("cards => cards.map(card => card.dataset.id)")


def finished(page: Page) -> None:
    """Waits for the end of a search."""
    page.locator(".results:not([aria-busy]) .card").first.wait_for()


def until(page: Page, script: str, value: Any = None) -> None:
    """Waits until a script says yes.

    Playwright's `wait_for_function` asks again by `eval` in the page, which our pages forbid.
    """
    end = time.monotonic() + 20
    while not page.evaluate(script, value):
        assert time.monotonic() < end, f"20 seconds without {script}"
        page.wait_for_timeout(50)


def parameters(page: Page) -> dict[str, str]:
    """Those of the address."""
    query = page.url.partition("#")[2].partition("?")[2]
    return dict(part.split("=", 1) for part in query.split("&") if part)


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Presses, moves and lets go."""
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def within(locator: Any, x: float, y: float) -> tuple[float, float]:
    """The place in the window of a place in an element, as parts of its size."""
    box = locator.bounding_box()
    return box["x"] + x * box["width"], box["y"] + y * box["height"]
