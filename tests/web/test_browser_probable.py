"""Probabilities on the page: the line between the same place and similar photos, and the switch."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.web_browser import Page, Visit, finished, parameters, ranks, until
from support.web_browser_fixtures import served

from solar.index.build import build

pytest_plugins = ["support.web_browser_fixtures"]


@pytest.fixture(scope="module")
def rated(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of photos enough for probabilities, with a model that has them."""
    home = tmp_path_factory.mktemp("rated")
    shutil.copytree(collection / "photos" / "landmark-000", home / "photos" / "landmark-000")
    (home / "photos" / "noise").mkdir()
    for number in range(24):  # nothing like a landmark
        pixels = np.random.default_rng(number).integers(0, 10 * (number + 1), (120, 160, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(home / "photos" / "noise" / f"{number}.png")
    build(home / "photos", home / "i.solar", model="solar-r18", size=96).close()
    with served(home / "i.solar") as url:
        yield url


def percents(page: Page) -> list[int]:
    """Probabilities of the cards, from the lines that open."""
    told = page.locator(".verdict p").all_text_contents()
    return [int(re.search(r"(\d+) % likely", text)[1]) for text in told]


@pytest.mark.parametrize("width", [1280, 390])
def test_a_line_separates_the_same_place_from_similar_photos(
    rated: str, visit: Visit, width: int
) -> None:
    page = visit(f"{rated}#/?q=0", viewport={"width": width, "height": 900})
    finished(page)
    page.locator(".stage-chip[data-stage=verify]").wait_for(state="attached")
    probable = percents(page)
    assert probable == sorted(probable, reverse=True)
    same = sum(one >= 50 for one in probable)
    words = page.locator(".verdict summary").all_text_contents()
    assert [text != "Similar only" for text in words] == [one >= 50 for one in probable]
    assert page.locator(".found").text_content() == f"{same} likely the same place"
    assert 0 < same < len(probable)
    line = page.locator(".grid > .divider")
    assert line.text_content() == "Similar only"
    above = page.evaluate("document.querySelector('.divider').previousElementSibling.dataset.id")
    assert ranks(page).index(above) == same - 1
    line.scroll_into_view_if_needed()
    page.shoot(f"probable-{width}")
    box, grid = line.bounding_box(), page.locator(".grid").bounding_box()
    assert box["width"] == pytest.approx(grid["width"], abs=1)

    # Arrows go through the cards, whatever stands between them.
    page.keyboard.press("ArrowDown")
    for card in ranks(page)[1 : same + 1]:
        page.keyboard.press("ArrowRight")
        focused = "document.activeElement.closest('.card').dataset.id"
        assert page.evaluate(focused) == card
    page.keyboard.press("ArrowUp")
    assert page.evaluate(f"{focused}") in ranks(page)[:same]


def test_ranking_again_can_be_switched_off(rated: str, visit: Visit) -> None:
    page = visit(f"{rated}#/?q=0")
    page.locator(".stage-chip[data-stage=verify]").wait_for(state="attached")
    finished(page)
    page.locator(".panel summary", has_text="Advanced").click()
    switch = page.get_by_role("switch", name="Geometric verification")
    assert switch.is_checked()
    assert page.get_by_text("matching details").count() > 0
    switch.uncheck()
    page.wait_for_url("**rerank=none**")
    page.locator(".stages:not(:has([data-stage=verify]))").wait_for(state="attached")
    finished(page)
    told = page.locator(".verdict p").all_text_contents()
    assert not any("matching" in text for text in told)
    scores = [float(re.search(r"similarity ([\d.]+)", text)[1]) for text in told]
    assert scores == sorted(scores, reverse=True)
    switch.check()
    page.locator(".stage-chip[data-stage=verify]").wait_for(state="attached")
    assert "rerank" not in parameters(page)

    page.get_by_label("Same place, %").fill("50")
    page.wait_for_url("**probable=50**")
    finished(page)
    until(page, "!document.querySelector('.divider')")
    assert min(percents(page)) >= 50
    page.get_by_label("Same place, %").fill("150")  # there is no more than 100
    page.wait_for_url("**probable=100**")
    assert page.get_by_label("Same place, %").input_value() == "100"
