"""A real server and a real browser, for the tests of the page."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import torch
from support.running import command, environment
from support.web_browser import DISTRACTORS, LANDMARKS, TOKEN, VIEWS, Page, Visit

from solar.demo import toy
from solar.index.build import build
from solar.models import RetrievalConfig, RetrievalNet, save

_CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
PLACE = (48.8582, 2.2945)
"""Where the second photo of the second landmark was taken."""
_DESKTOP = {"width": 1280, "height": 800}


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `photos`, `small` and `other` models with drawn weights, an index of each."""
    home = tmp_path_factory.mktemp("browser")
    numbers = {"landmarks": LANDMARKS, "views": VIEWS, "distractors": DISTRACTORS}
    toy.write(home / "photos", size=(240, 180), **numbers)
    facts = {"path": "landmark-001/view-001.jpg", "taken": "2019-07-14", "position": PLACE}
    (home / "facts.jsonl").write_text(json.dumps(facts))
    for seed, name in enumerate(("small", "other")):
        torch.manual_seed(seed)
        config = RetrievalConfig("resnet18", attention={4: 4, 5: 2}, size=96, scales=(1.0,))
        model = home / f"{name}.safetensors"
        save(RetrievalNet(config), model)
        known = home / "facts.jsonl"
        build(home / "photos", home / f"{name}.solar", model=model, metadata=known).close()
    return home


@contextmanager
def served(index: Path, *options: object) -> Iterator[str]:
    """Runs `solar serve` until the end of the block, and gives its address."""
    start = command("serve", index, "--port", 0, "--rate", 0, "--no-open", *options)
    process = subprocess.Popen(start, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def site(collection: Path) -> Iterator[str]:
    """The address of a server for everybody."""
    with served(collection / "small.solar", "--compare-model", collection / "other.solar") as url:
        yield url


@pytest.fixture(scope="session")
def private_photos(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photos of `private_site`."""
    home = tmp_path_factory.mktemp("writable")
    for name in ("photos", "small.solar"):
        shutil.copytree(collection / name, home / name)
    return home / "photos"


@pytest.fixture(scope="session")
def private_site(private_photos: Path) -> Iterator[str]:
    """The address of a server with a token and a collection of its own, which may grow."""
    options = ("--photos", private_photos, "--writable", "--token", TOKEN)
    with served(private_photos.with_name("small.solar"), *options) as url:
        yield url


# Not for the session: while Playwright runs, no other test of this process can run an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium."""
    if not _CHROMIUM:
        pytest.skip("There is no Chromium: apt-get install chromium.")
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason='pip install "solar-retrieval[dev]"'
    )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Opens pages, and insists at the end that nothing went wrong in them.

    `expected` names what a console message may contain, where a test provokes failures.
    """
    contexts, wrong, allowed = [], [], []

    def open_page(address: str, *, expected: tuple[str, ...] = (), **given: Any) -> Page:
        allowed.extend(expected)
        context = browser.new_context(
            **{"viewport": _DESKTOP, "reduced_motion": "reduce", "color_scheme": "light", **given}
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        home = urlsplit(address).netloc
        page.on(
            "console", lambda said: said.type in ("error", "warning") and wrong.append(said.text)
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda request: (
                urlsplit(request.url).netloc not in (home, "")
                and wrong.append(f"{request.url} is elsewhere")
            ),
        )
        page.goto(address)
        page.shoot = lambda name: shoot(page, name)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in wrong if not any(part in text for part in allowed)] == []


def shoot(page: Page, name: str) -> None:
    """Waits for the pictures in the window, and takes a screenshot.

    It goes into the folder that SOLAR_SCREENSHOTS names, for people to look at; without one, none
    is taken.
    """
    page.evaluate(
        """() => Promise.all([...document.images]
          .filter(image => image.getClientRects()[0]?.top < innerHeight)
          .map(image => image.decode().catch(() => {})))"""
    )
    if folder := os.environ.get("SOLAR_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")
