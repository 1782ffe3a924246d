"""The site as a reader sees it: in Chromium, on a desk and on a phone."""

import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from support.http_thread import Quiet, answering
from support.web_browser import Visit

pytest_plugins = ["support.web_browser_fixtures"]

PHONE = {"width": 390, "height": 844}
# What is typed, and where the first answer that is a part of a page leads.
PLACES = {
    "solar: command not found": "troubleshooting.html#solar-command-not-found",
    "Cannot listen on": "troubleshooting.html#cannot-listen-on",
    "holiday.jpg is damaged or cut short": "troubleshooting.html#is-damaged-or",
    "--verify": "local-features.html#geometric-verification",
    "install": "search.html#install",
}
# Words that users of such tools type, and the page that should be the first answer or the second.
PAGES = {
    "attention map": "attention",
    "checkpoint": "training",
    "cosine similarity": "search",
    "DINOv2": "backbones",
    "Docker": "deploy",
    "duplicates": "duplicates",
    "embedding": "other-tools",
    "fine-tune": "own-training",
    "finetuning": "own-training",
    "geometric verification": "local-features",
    "GPU": "performance",
    "hard negatives": "training",
    "HNSW": "milvus",
    "metadata": "where-and-when",
    "nearest neighbor": "performance",
    "nginx": "deploy",
    "ONNX": "commands",
    "pretrained": "backbones",
    "quantization": "performance",
    "query expansion": "ranking",
    "re-rank": "ranking",
    "REST API": "web",
    "reverse image search": "search",
    "text search": "backbones",
    "vector database": "milvus",
}
FIRST_TWO = """() => {
  const found = [...document.querySelectorAll(".md-search-result__item")].slice(0, 2);
  const paths = found.map(item => new URL(item.querySelector("a").href).pathname);
  return paths.length ? paths.map(path => path.slice(1).replace(".html", "")) : null;
}"""
FIRST_IS = """place => {
  const first = document.querySelector("a.md-search-result__link[href*='#']");
  return first && first.href.replace(/[?]h=[^#]*/, "").includes(place);
}"""


class Files(Quiet, SimpleHTTPRequestHandler):
    """Serves a folder."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    with answering(partial(Files, directory=str(site))) as place:
        yield place


def written(site: Path) -> list[Path]:
    """The pages that somebody wrote; those made of docstrings are all of one form."""
    return sorted(file for file in site.rglob("*.html") if file.parent.name != "api")


def largest(folder: Path) -> Path:
    return max(folder.glob("*.html"), key=lambda file: file.stat().st_size)


def test_no_page_is_wider_than_a_phone(address: str, site: Path, visit: Visit) -> None:
    page = visit(f"{address}/index.html", viewport=PHONE, is_mobile=True)
    # Every page reads the index of the search, all of which takes longer than to lay it out.
    index = json.loads((site / "search" / "search_index.json").read_bytes())
    short = {**index, "docs": index["docs"][:1]}
    page.route("**/search_index.json", lambda route: route.fulfill(json=short))
    for file in [*written(site), largest(site / "api")]:
        page.goto(f"{address}/{file.relative_to(site).as_posix()}", wait_until="domcontentloaded")
        page.wait_for_function("document.scrollingElement.scrollWidth <= innerWidth")


def test_the_search_box_leads_to_the_place_and_words_to_their_page(
    address: str, visit: Visit
) -> None:
    page = visit(f"{address}/index.html")
    for typed, place in PLACES.items():
        page.locator("input.md-search__input").fill("")
        page.locator("input.md-search__input").click()
        page.keyboard.type(typed)
        page.wait_for_function(FIRST_IS, arg=place, timeout=60_000)
    box = page.locator("input.md-search__input")
    for word, right in PAGES.items():
        box.fill("")
        box.press("End")
        page.wait_for_function("!document.querySelector('.md-search-result__item')")
        box.fill(word)
        box.press("End")
        answers = page.wait_for_function(FIRST_TWO, timeout=60_000).json_value()
        assert right in answers, word
