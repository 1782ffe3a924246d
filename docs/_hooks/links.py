"""Links that are right on the code host, led to the same things on the site.

A link is written as the code host follows it: relative to the file it stands in. On the site the
README is `index.md`, files outside docs/ lie below `files/`, and a folder is the page about it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

REPOSITORY = Path(__file__).parents[2]

# Folders that have a page of their own.
_FOLDERS = {"recipes": "training.md", "docs": "index.md", "src/solar/weights": "models.md"}
_TARGET = re.compile(r"""(?P<before>\]\(|\b(?:src|href|srcset)=")(?P<target>[^)\s"]+)""")
_FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)$", re.DOTALL | re.MULTILINE)


def on_the_site(markdown: str, page: str, origins: Mapping[str, str]) -> str:
    """The text with its links as they must be on the site.

    Args:
        markdown: a page's text.
        page: its name on the site, `performance.md`.
        origins: for pages that are no files of docs/, their path below the repository.
    """

    def led(found: re.Match[str]) -> str:
        place, mark, anchor = found["target"].partition("#")
        target = _site_path(place, page, origins)
        if target is None:
            return found[0]
        relative = os.path.relpath(target, PurePosixPath(page).parent)
        return found["before"] + relative + mark + anchor

    return "".join(text if code else _TARGET.sub(led, text) for code, text in _pieces(markdown))


def assets(markdown: str, page: str, origins: Mapping[str, str]) -> Iterator[str]:
    """Files outside docs/ that a page links to, below the repository."""
    for target in targets(markdown):
        path = _site_path(target.partition("#")[0], page, origins)
        if path is not None and path.startswith("files/"):
            yield path.removeprefix("files/")


def targets(markdown: str) -> list[str]:
    """What a text links to, as written."""
    return [
        found["target"]
        for code, text in _pieces(markdown)
        if not code
        for found in _TARGET.finditer(text)
    ]


def _site_path(place: str, page: str, origins: Mapping[str, str]) -> str | None:
    """Where something named in a page is on the site; None for other sites and this page."""
    if not place or ":" in place or place.startswith("/"):
        return None
    origin = origins.get(page, f"docs/{page}")
    path = os.path.normpath(PurePosixPath(origin).parent / place)
    pages = {origin: name for name, origin in origins.items()}
    if path in pages:
        return pages[path]
    if path in _FOLDERS:
        return _FOLDERS[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if (REPOSITORY / path).is_file() else None


def _pieces(markdown: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces, each with whether it is fenced code."""
    end = 0
    for fence in _FENCE.finditer(markdown):
        yield False, markdown[end : fence.start()]
        yield True, fence[0]
        end = fence.end()
    yield False, markdown[end:]
