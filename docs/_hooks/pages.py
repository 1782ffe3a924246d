"""The pages of the site that are not files of docs/, and the parts that are not written by hand.

MkDocs calls the functions named `on_…`. From `<!-- generated: NAME -->` to `<!-- /generated -->` a
page of docs/ says something for readers on the code host; the site shows what `GENERATED` makes of
the name instead. For the reference (`WRITTEN`) that is the same in plain text, which this writes:

    python docs/_hooks/pages.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import commands
import links
import reference
import sentences
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[2]

GENERATED: dict[str, Callable[[], str]] = {
    "api": reference.public,
    "cards": lambda: cards_list(),
    "commands": commands.all_commands,
    "errors": sentences.page,
    "recipes": lambda: recipes(),
}
# What readers of the code host see between the marks of a page.
WRITTEN: dict[str, dict[str, Callable[[], str]]] = {
    "api.md": {"api": reference.readable},
    "commands.md": {"commands": commands.all_commands},
}
# Who searches for a word wants the guide first; a whole sentence is still found.
BOOSTS = {
    "search.md": 2,
    "milvus.md": 1.5,
    "troubleshooting.md": 0.45,
    "commands.md": 0.3,
    "changelog.md": 0.2,
    "api.md": 0.15,
}
FIRST_STEPS = {
    "Search your photos": "search.md",
    "See examples": "examples.md",
    "Fine-tune on your photos": "own-training.md",
    "Reproduce the paper": "reproduce.md",
}
# Code in the text: code in blocks is coloured, so that a tag follows at once. Words that a phone's
# line could not hold may be broken.
_INLINE_CODE = re.compile(r"<code>[^<]+</code>")
_WORD = re.compile(r"(?<![^\s>])(?=[^\s<>]*[-/])[^\s<>]{2,36}(?![^\s<])")
_GENERATED = re.compile(
    r"^<!-- generated: (?P<name>[\w-]+) -->$.*?^<!-- /generated -->$", re.MULTILINE | re.DOTALL
)


def origins() -> dict[str, str]:
    """Where each page that is no file of docs/ comes from, below the repository."""
    cards = sorted((REPOSITORY / "src/solar/weights").glob("*.md"))
    notebooks = sorted((REPOSITORY / "examples").glob("*.ipynb"))
    return {
        "index.md": "README.md",
        "contributing.md": "CONTRIBUTING.md",
        "security.md": "SECURITY.md",
        "changelog.md": "CHANGELOG.md",
        "examples.md": "examples/README.md",
        **{f"models/{card.name}": f"src/solar/weights/{card.name}" for card in cards},
        **{f"examples/{one.stem}.md": f"examples/{one.name}" for one in notebooks},
    }


def virtual_pages() -> dict[str, str]:
    """The text of every page that is no file of docs/."""
    copied = {page: _text(REPOSITORY / origin) for page, origin in origins().items()}
    return {**copied, **reference.pages()}


def _text(path: Path) -> str:
    """A file's Markdown, or a notebook as Markdown."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return _notebook(path.stem, json.loads(text)["cells"])


def _notebook(stem: str, cells: list[dict[str, Any]]) -> str:
    """Cells one below the other, below code what it showed (from tests/support/notebooks.py)."""
    shown = json.loads((REPOSITORY / f"docs/_site/examples/{stem}.json").read_text("utf-8"))
    shows = {cell["code"]: cell["shows"] for cell in shown}
    parts = []
    for cell in cells:
        body = "".join(cell["source"])
        parts.append(body if cell["cell_type"] == "markdown" else f"```python\n{body}\n```")
        if cell["cell_type"] == "code":
            parts += [_output(**one) for one in shows.get(body, [])]
    note = f"*This page is the notebook `examples/{stem}.ipynb` and what it shows when it is run.*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def _output(text: str = "", picture: str = "") -> str:
    if picture:
        return f"![What the code above shows](../docs/_site/examples/{picture})"
    return f"```text\n{text.rstrip()}\n```"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that are only known now into the navigation: `models/*` and `api/*`."""
    there = {path.name for path in (REPOSITORY / "docs").glob("*.md")} | set(virtual_pages())
    config.nav = _expanded(config.nav or [], there)
    watched = ("README.md", "CHANGELOG.md", "src", "examples")
    config.watch += [str(REPOSITORY / name) for name in watched]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are no files of docs/, and whatever files pages link to."""
    for page, text in virtual_pages().items():
        files.append(File.generated(config, page, content=text))
    linked = {
        asset
        for file in files.documentation_pages()
        for asset in links.assets(file.content_string, file.src_uri, origins())
    }
    for asset in sorted(linked):
        path = str(REPOSITORY / asset)
        files.append(File.generated(config, f"files/{asset}", abs_src_path=path))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill the generated parts in, and lead links to where things are on the site."""
    name = page.file.src_uri
    if boost := 0.15 if name in reference.pages() else BOOSTS.get(name):
        page.meta.setdefault("search", {"boost": boost})
    if name == "index.md":
        markdown = _with_first_steps(markdown)
    markdown = links.on_the_site(markdown, name, origins())
    return _GENERATED.sub(lambda part: generated(part["name"]), markdown)


def _with_first_steps(readme: str) -> str:
    """The README with buttons below its first paragraph: a reader of the site has seen no code."""
    head, title, rest = readme.partition("\n\n![")
    buttons = [f"[{text}](docs/{page}){{ .md-button }}" for text, page in FIRST_STEPS.items()]
    return head + "\n\n" + " ".join(buttons) + title + rest


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep options and paths in the text whole: browsers break lines after every hyphen."""
    whole = r'<span class="whole">\g<0></span>'
    return _INLINE_CODE.sub(lambda code: _WORD.sub(whole, code[0]), html)


def written() -> dict[Path, str]:
    """What the pages of the reference should hold in the repository."""
    return {REPOSITORY / "docs" / page: _written(page, parts) for page, parts in WRITTEN.items()}


def _written(page: str, parts: dict[str, Callable[[], str]]) -> str:
    def part(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- generated: {name} -->\n{parts[name]()}\n<!-- /generated -->"

    return _GENERATED.sub(part, (REPOSITORY / "docs" / page).read_text(encoding="utf-8"))


@cache
def generated(name: str) -> str:
    """The Markdown for the part of that name."""
    return GENERATED[name]()


def cards_list() -> str:
    """The model cards with what each says first, or a sentence where there are none."""
    texts = {page: text for page, text in virtual_pages().items() if page.startswith("models/")}
    lines = [f"- [{Path(page).stem}]({page}): {_opening(text)}" for page, text in texts.items()]
    return "\n".join(lines) or "No models are bundled with this version."


def _opening(text: str) -> str:
    """The first paragraph below the title."""
    return next(part for part in text.split("\n\n") if not part.startswith("#")).strip()


def recipes() -> str:
    """Every recipe as it is, under its name."""
    paths = sorted((REPOSITORY / "recipes").glob("*.yaml"))
    return "\n\n".join(
        f"### {path.stem}\n\n```yaml\n{path.read_text(encoding='utf-8').strip()}\n```"
        for path in paths
    )


def _expanded(items: list[Any], there: set[str]) -> list[Any]:
    """The navigation with patterns replaced by pages, and without pages that do not exist."""
    return [new for item in items for new in _entries(item, there)]


def _entries(item: Any, there: set[str]) -> Iterator[Any]:
    if isinstance(item, str):
        if item.endswith("/*"):
            pages = sorted(page for page in there if page.startswith(item[:-1]))
            yield from ({Path(page).stem: page} for page in pages)
        elif item in there:
            yield item
        return
    [(title, value)] = item.items()
    if isinstance(value, list):
        yield {title: _expanded(value, there)}
    elif value in there:
        yield item


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
