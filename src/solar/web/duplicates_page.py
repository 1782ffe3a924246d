"""What `solar duplicates` found, on a page to go through: the web app's view in a single file.

Photos that a browser can show are linked, at their full size: thousands of copies inside the page
would make it too large to open, and two copies of a photo are told apart by their details. The
others, such as photos in tar shards, are inside as small JPEGs, up to a limit.
"""

import base64
import hashlib
import json
import re
from contextlib import suppress
from html import escape
from itertools import islice
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, TextIO
from urllib.parse import quote

from PIL import Image

from solar.errors import SolarError
from solar.files import replacing
from solar.images import Roots, load
from solar.near_duplicates.report import DuplicateGroup, DuplicateReport
from solar.show.search_page import data_address

# The page has the styles and scripts of the web app.
_STATIC = Path(__file__).parents[1] / "web" / "static"
_STYLES = ("base", "controls", "views", "duplicates")
_SHOWN = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".avif"}
_CHUNK = 50
_INSIDE, _SIDE = 500, 480


def write_duplicates_page(path: str | Path, report: DuplicateReport) -> None:
    """Write a page to review groups on, and to export the decisions; lost photos are named."""
    roots = report.roots
    seen = _PagePhotos(roots, Path(path).absolute().parent)
    script = bundle(_STATIC / "js", "duplicates/standalone.js")
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as out:
        out.write(_head(report.photos, script))
        known: list[tuple[str, str]] = []
        left = iter(report)
        while some := list(islice(left, _CHUNK)):
            known += [(group.kind, group.id) for group in some]
            _data(out, [_group(group, seen) for group in some], 'class="groups"')
        name = _name(roots)
        overview = {"name": name, "photos": report.photos, "groups": known, "chunk": _CHUNK}
        _data(out, overview, 'id="overview"')
        out.write(f'<script type="module">{script}</script>\n</body>\n</html>\n')


def _name(roots: Roots) -> str:
    names = [Path(root.path).name for root in roots.roots]
    place = hashlib.sha256(json.dumps(roots.stored()).encode()).hexdigest()[:6]
    plain = re.sub(r"[^\w.-]+", "-", "-".join(names[:2])) or "photos"
    return f"{plain}-{place}"


def _head(photos: int, script: str) -> str:
    css = "".join((_STATIC / "css" / f"{name}.css").read_text("utf-8") for name in _STYLES)
    page = (_STATIC / "index.html").read_text("utf-8")
    icons = page[page.index('<svg class="sprite"') : page.index("</body>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    title = f"Duplicates among {photos:,} photos"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"img-src data: file: 'self'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'\">\n"
        f"<title>{escape(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n"
        '<main id="main" tabindex="-1"></main>\n'
        '<div class="toasts" id="toasts" role="status" aria-live="polite"></div>\n'
        '<div class="unseen" id="spoken" role="status" aria-live="polite"></div>\n'
        f'<noscript><p class="waiting">This page needs JavaScript.</p></noscript>\n{icons}'
    )


def _data(out: TextIO, value: Any, attribute: str) -> None:
    text = json.dumps(value, separators=(",", ":"))  # ASCII: names may be invalid Unicode
    # A name must not end the element that holds it.
    text = text.replace("<", "\\u003c")
    out.write(f'<script type="application/json" {attribute}>{text}</script>\n')


def _group(group: DuplicateGroup, seen: "_PagePhotos") -> dict[str, Any]:
    stored = group.to_dict()
    photos = [photo | seen.addresses(photo["name"]) for photo in stored["photos"]]
    return {**stored, "id": group.id, "photos": photos}


class _PagePhotos:
    def __init__(self, roots: Roots, folder: Path) -> None:
        self._roots, self._folder = roots, folder
        self._inside = 0

    def addresses(self, name: str) -> dict[str, str | None]:
        """The picture of a photo, and its path on this machine; None if there is none."""
        source = self._roots.find(name)
        place = None if source is None else self._roots.absolute(name)
        if isinstance(source, Path) and source.suffix.lower() in _SHOWN:
            return {"photo": self._link(source.absolute()), "path": place}
        return {"photo": None if source is None else self._picture(source), "path": place}

    def _link(self, file: Path) -> str:
        # Relative, so that page and photos can be moved together.
        if file.is_relative_to(self._folder):
            return quote(f"./{file.relative_to(self._folder).as_posix()}", errors="surrogateescape")
        return file.as_uri()

    def _picture(self, source: Path | bytes) -> str | None:
        if self._inside >= _INSIDE:
            return None
        with suppress(SolarError):
            image = Image.fromarray(load(source, _SIDE, mode="fast").pixels)
            self._inside += 1
            return data_address(image)
        return None


_IMPORT = re.compile(r"^import (\{[^}]*\}|\* as \w+) from \"([^\"]+)\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def bundle(folder: Path, entry: str) -> str:
    """A module below a folder and all that it imports, each once, in a function of its own."""
    done: dict[str, str] = {}
    _add(folder, PurePosixPath(entry), done)
    return "const modules = {};\n" + "".join(done.values())


def _add(folder: Path, name: PurePosixPath, done: dict[str, str]) -> None:
    text = (folder / name).read_text(encoding="utf-8")
    wanted = {
        path: PurePosixPath(normpath(name.parent / path)) for _, path in _IMPORT.findall(text)
    }
    for other in wanted.values():
        if str(other) not in done:
            _add(folder, other, done)

    def given(found: re.Match[str]) -> str:
        names = found[1].removeprefix("* as ").replace(" as ", ": ")
        return f'const {names} = modules["{wanted[found[2]]}"];\n'

    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(given, text))
    done[str(name)] = f'modules["{name}"] = (() => {{\n{body}return {{ {exported} }};\n}})();\n'
