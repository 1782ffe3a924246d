"""The site as a reader gets it: built strictly, complete, and sufficient unto itself."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import hints
import links
import pages
import pytest
import sentences
import yaml

REPOSITORY = Path(__file__).parents[2]


@dataclass
class Read(HTMLParser):
    """What a page refers to, what can be referred to in it, and what it says."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in {"script", "img", "iframe", "source", "link"}:
            self.loaded += [given[name] for name in ("src", "srcset", "href") if given.get(name)]

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.said).split())


@pytest.fixture(scope="module")
def read(site: Path) -> Mapping[str, Read]:
    """Every page, by its path below the site."""
    found = {}
    for path in site.rglob("*.html"):
        found[path.relative_to(site).as_posix()] = page = Read()
        page.feed(path.read_text(encoding="utf-8"))
    return found


def test_nothing_is_loaded_from_elsewhere(site: Path, read: Mapping[str, Read]) -> None:
    outside = [(name, url) for name, page in read.items() for url in page.loaded if "//" in url]
    assert outside == []
    sheets = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert sheets
    assert not [sheet for sheet in sheets if "@import" in sheet or "url(http" in sheet]


def test_every_link_leads_to_a_page_and_a_place_in_it(site: Path, read: Mapping[str, Read]) -> None:
    assert [broken for name, page in read.items() for broken in dead(name, page, site, read)] == []


def dead(name: str, page: Read, site: Path, read: Mapping[str, Read]) -> Iterator[tuple[str, str]]:
    """The links of a page that lead nowhere."""
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or name == "404.html":
            continue
        path = os.path.normpath(Path(name).parent / unquote(parts.path)) if parts.path else name
        path = "index.html" if path == "." else path
        place = unquote(parts.fragment)
        if not (site / path).is_file() or (place and place not in read[path].ids):
            yield name, link


def test_the_first_page_says_where_to_start(read: Mapping[str, Read]) -> None:
    page = read["index.html"]
    for text, target in pages.FIRST_STEPS.items():
        assert text in page.text
        assert target.replace(".md", ".html") in page.links


@pytest.mark.parametrize(
    ("code", "whole"),
    [
        ("<code>--verify</code>", ["--verify"]),
        ("<code>solar index build -o a/b.solar</code>", ["-o", "a/b.solar"]),
        ("<code>solar models</code>", []),
        (f"<code>{'a/' * 19}</code>", []),
        ("<pre><code><span>--verify</span></code></pre>", []),
    ],
)
def test_options_and_paths_stay_whole_in_the_text(code: str, whole: list[str]) -> None:
    html = pages.on_page_content(code, None, None, None)  # type: ignore[arg-type]
    assert re.findall('<span class="whole">(.*?)</span>', html) == whole
    assert re.sub('<span class="whole">(.*?)</span>', r"\1", html) == code


@pytest.mark.parametrize("notebook", ["search", "attention", "match", "evaluate", "train"])
def test_notebooks_are_shown_with_their_pictures(read: Mapping[str, Read], notebook: str) -> None:
    pictures = [url for url in read[f"examples/{notebook}.html"].loaded if url.endswith(".webp")]
    assert len(pictures) >= 2


def test_every_page_of_docs_is_in_the_navigation_and_every_entry_is_a_page() -> None:
    written = {path.name for path in (REPOSITORY / "docs").glob("*.md")}
    nav = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = set(entries(nav))
    assert named >= written
    missing = {name for name in named - written - set(pages.origins()) if not name.endswith("/*")}
    assert not missing


def entries(item: object) -> Iterator[str]:
    if isinstance(item, str):
        yield item
    elif isinstance(item, list | dict):
        for inside in item.values() if isinstance(item, dict) else item:
            yield from entries(inside)


def test_links_are_right_on_the_code_host_too() -> None:
    texts = [
        REPOSITORY / name
        for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")
    ]
    texts += sorted((REPOSITORY / "docs").glob("*.md"))
    wrong = [
        (path.name, target)
        for path in texts
        for target in links.targets(path.read_text(encoding="utf-8"))
        if not urlsplit(target).scheme and not target.startswith("#")
        if not (path.parent / target.partition("#")[0]).exists()
    ]
    assert wrong == []


def test_every_sentence_of_the_program_is_on_the_troubleshooting_page(
    read: Mapping[str, Read],
) -> None:
    text = read["troubleshooting.html"].text
    said = [sentence for found in sentences.sentences().values() for sentence in found]
    assert len(said) > 400
    assert [sentence for sentence in said if " ".join(sentence.split()) not in text] == []


def test_every_sentence_can_be_searched_for(site: Path) -> None:
    """Each is the title of a place of its own, which the search box ranks above mere words."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = Read()
    for entry in index["docs"]:
        if entry["location"].startswith("troubleshooting.html#"):
            titles.feed(entry["title"])
    said = [sentence for module in sentences.sentences().values() for sentence in module]
    assert [sentence for sentence in said if " ".join(sentence.split()) not in titles.text] == []


def test_no_sentence_is_overlooked(read: Mapping[str, Read]) -> None:
    """The same sentences, found in the source by their first words alone."""
    text = read["troubleshooting.html"].text
    begun = re.compile(r"(?:SolarError|ImageError|NoIndexError)\(\s*(?:f?\"|f')([^\"'{]{12,})")
    starts = {
        start
        for path in sentences.SOURCE.rglob("*.py")
        for start in begun.findall(path.read_text(encoding="utf-8"))
    }
    assert len(starts) > 200
    assert [start for start in starts if " ".join(start.split()) not in text] == []


def test_every_package_with_sentences_has_a_topic_and_every_hint_a_sentence() -> None:
    found = sentences.sentences()
    assert {sentences.package_of(path) for path in found} <= set(hints.TOPICS)
    said = [sentence for module in found.values() for sentence in module]
    assert [key for key in hints.HINTS if not any(key in sentence for sentence in said)] == []


def test_every_command_is_in_the_reference_with_every_option(read: Mapping[str, Read]) -> None:
    import typer

    from solar.cli import app

    page = read["commands.html"]
    for path, command in commands_below("solar", typer.main.get_command(app)):
        assert path.replace(" ", "-") in page.ids
        options = {option for parameter in command.params for option in parameter.opts}
        assert [name for name in options if name[0] == "-" and name not in page.text] == []


def commands_below(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from commands_below(f"{path} {name}", command)


def test_the_reference_in_the_repository_is_that_of_the_code() -> None:
    for path, text in pages.written().items():
        assert path.read_text(encoding="utf-8") == text, "Run python docs/_hooks/pages.py."


def test_every_public_name_is_in_the_reference(read: Mapping[str, Read]) -> None:
    import solar

    assert {f"solar.{name}" for name in solar.__all__} <= read["api.html"].ids
    assert "solar.images.decode.load" in read["api/images.html"].ids  # of the same name, not public
