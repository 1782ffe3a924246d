"""Map tiles behind the photos of the world: only where there is a server of them, and in place."""

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from support.http_thread import Quiet, answering
from support.web_browser import INKED, Page, Visit, until
from support.web_browser_fixtures import PLACE, served

pytest_plugins = ["support.web_browser_fixtures"]

SIDE = 256
CREDIT = "© The cartographers"
SEA, CROSS = (150, 190, 220), (220, 0, 90)


def place_at(zoom: int) -> tuple[float, float]:
    """The column and row of `PLACE` among the tiles, as OpenStreetMap's wiki defines them."""
    latitude, longitude = math.radians(PLACE[0]), PLACE[1]
    many = 2**zoom
    column = (longitude + 180) / 360 * many
    row = (1 - math.asinh(math.tan(latitude)) / math.pi) / 2 * many
    return column, row


def tile(zoom: int, column: int, row: int) -> bytes:
    """The sea, with lines along the meridian and the parallel of `PLACE`."""
    pixels = np.full((SIDE, SIDE, 3), SEA, np.uint8)
    across, down = (
        int((one - at) * SIDE) for one, at in zip(place_at(zoom), (column, row), strict=True)
    )
    if 0 <= across < SIDE:
        pixels[:, max(across - 1, 0) : across + 2] = CROSS
    if 0 <= down < SIDE:
        pixels[max(down - 1, 0) : down + 2] = CROSS
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


class _Tiles(Quiet, BaseHTTPRequestHandler):
    """Serves tiles, and notes what it is asked for and from where."""

    def __init__(self, asked: list[tuple[str, str | None]], *given: object) -> None:
        self._asked = asked
        super().__init__(*given)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._asked.append((self.path, self.headers["Referer"]))
        found = re.fullmatch(r"/(\d+)/(\d+)/(\d+)\.png", self.path)
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "image/png")
        self.end_headers()
        if found:
            self.wfile.write(tile(*map(int, found.groups())))


@contextmanager
def tile_server() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    asked: list[tuple[str, str | None]] = []
    with answering(partial(_Tiles, asked)) as base:
        yield base, asked


@pytest.fixture
def tiled(collection: Path) -> Iterator[tuple[str, str, list[tuple[str, str | None]]]]:
    """A server with map tiles, the server of those, and what that one was asked for.

    For one test: pages of another may still ask.
    """
    with tile_server() as (base, asked):
        options = ("--tiles", f"{base}/{{z}}/{{x}}/{{y}}.png", "--tiles-attribution", CREDIT)
        with served(collection / "small.solar", *options) as url:
            yield url, base, asked


def deepest(page: Page, asked: list[tuple[str, str | None]]) -> int:
    """The zoom of the tiles, once no more of them are asked for."""
    before = None
    while before != asked or not asked:
        before = list(asked)
        page.wait_for_timeout(1000)
        page.wait_for_load_state("networkidle")
    return max(int(path.split("/")[1]) for path, _ in asked)


def cross_on(page: Page) -> tuple[float, float]:
    """Where the lines of the tiles cross, as parts of the map."""
    box = page.locator(".map").bounding_box()
    shot = Image.open(io.BytesIO(page.screenshot(clip=box))).convert("RGB")
    red, green, blue = np.moveaxis(np.asarray(shot, int), -1, 0)
    # A veil over the tiles makes them darker, not of another colour.
    lines = (red > 2 * green + 60) & (red > blue + 40)
    rows, columns = lines.mean(1), lines.mean(0)
    assert max(rows.max(), columns.max()) > 0.5
    return columns.argmax() / len(columns), rows.argmax() / len(rows)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_photos_lie_where_they_belong_on_the_tiles(
    tiled: tuple[str, str, list[tuple[str, str | None]]], visit: Visit, width: int, scheme: str
) -> None:
    site, base, asked = tiled
    page = visit(
        f"{site}#/map",
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        expected=(base,),
    )
    page.locator("canvas[data-seen]").wait_for()
    assert asked == []  # the map by likeness has none
    assert page.get_by_text(CREDIT).is_hidden()
    page.get_by_label("Arrange").select_option("place")
    page.locator("canvas[data-seen='1'][data-pictures='1']").wait_for()
    page.get_by_text(CREDIT).wait_for()
    for _ in range(2):
        zoom = deepest(page, asked)
        page.shoot(f"tiles-{width}-{scheme}")
        # The only photo is in the middle.
        assert cross_on(page) == pytest.approx((0.5, 0.5), abs=0.01)
        wanted = "/{}/{}/{}.png".format(zoom, *map(int, place_at(zoom)))
        assert wanted in [path for path, _ in asked]
        for _ in range(6):
            page.keyboard.press("+")
    assert zoom > 10
    # Who asks, as public servers demand, but not what they look at.
    assert {referer for _, referer in asked} == {f"http://{urlsplit(site).netloc}/"}


def test_without_tiles_the_outline_stays(site: str, visit: Visit) -> None:
    with tile_server() as (base, asked):
        page = visit(f"{site}#/map?by=place", expected=("Content Security Policy", base))
        page.locator("canvas[data-seen='1']").wait_for()
        assert page.get_by_text(CREDIT).count() == 0
        # Not even a script of this page may ask for one.
        page.evaluate("address => { new Image().src = address }", f"{base}/0/0/0.png")
        page.wait_for_load_state("networkidle")
        assert asked == []


def test_a_server_of_tiles_that_is_gone_leaves_the_outline(collection: Path, visit: Visit) -> None:
    with tile_server() as (base, _):
        pass
    options = ("--tiles", f"{base}/{{z}}/{{x}}/{{y}}.png", "--tiles-attribution", CREDIT)
    with served(collection / "small.solar", *options) as url:
        page = visit(f"{url}#/map?by=place", expected=(base, "ERR_CONNECTION_REFUSED"))
        page.locator("canvas[data-seen='1']").wait_for()
        page.wait_for_load_state("networkidle")
        until(page, f"({INKED})() > 0.1")
