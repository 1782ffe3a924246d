"""The Python reference: which docstrings stand on which page. Nothing of solar is imported."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe

SOURCE = Path(__file__).parents[2] / "src" / "solar"


@cache
def public_names() -> dict[str, str]:
    """What `import solar` gives, with the package that each name is from; functions first."""
    homes = {
        alias.name: str(node.module)
        for node in ast.walk(tree(SOURCE / "__init__.py"))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    return dict(sorted(homes.items(), key=lambda item: item[0].swapcase()))


def public() -> str:
    """The docstrings of what `import solar` gives."""
    return "\n\n".join(_docstrings(f"solar.{name}") for name in public_names())


def readable() -> str:
    """What `import solar` gives as plain text, for readers of the repository."""
    solar: Any = griffe.load("solar", search_paths=[SOURCE.parent], resolve_aliases=True)
    return "\n\n".join(_plain(name, solar[name].final_target) for name in public_names())


def _plain(name: str, target: Any) -> str:
    said = target.docstring.value.replace("  # doctest: +SKIP", "") if target.docstring else ""
    lines = [_signature(target) if target.is_function else f"class {name}", "", said]
    if target.is_class:
        lines += ["", *_methods(target)]
    text = "\n".join(lines).strip()
    return f"## solar.{name}\n\n````text\n{text}\n````"


def _methods(target: Any) -> Iterator[str]:
    """The public methods of a class, inherited ones included, with what each says first."""
    for name, member in sorted(target.all_members.items()):
        method = member.final_target if member.is_alias else member
        if not name.startswith("_") and method.is_function and method.docstring:
            first, _, _ = method.docstring.value.partition("\n")
            yield f"{_signature(method)}\n    {first}\n"


def _signature(function: Any) -> str:
    return textwrap.fill(
        function.signature(),
        100,
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


@cache
def packages() -> dict[str, str]:
    """The packages below `solar`, with the first line that each says of itself."""
    return {path.parent.name: first_line(path) for path in sorted(SOURCE.glob("*/__init__.py"))}


@cache
def pages() -> dict[str, str]:
    """A page for each package, with what its modules say; commands have a page of their own."""
    return {f"api/{package}.md": _page(package) for package in packages() if package != "cli"}


def _page(package: str) -> str:
    folder = SOURCE / package
    modules = sorted(
        ".".join(("solar", *path.relative_to(SOURCE).with_suffix("").parts))
        for path in folder.rglob("*.py")
        if not path.name.startswith("_")
    )
    parts = [f"# solar.{package}", said(folder / "__init__.py")]
    options = "show_root_full_path: true"
    return "\n\n".join(parts + [_docstrings(one, _filters(one), options) for one in modules])


def _filters(module: str) -> str:
    """Leaves out what is private, and what stands on the front page of the reference already."""
    public = (name for name, home in public_names().items() if f"{module}.".startswith(f"{home}."))
    return f"filters: {['!^_', *(f'!^{name}$' for name in public)]}"


def _docstrings(name: str, *options: str) -> str:
    lines = [f"::: {name}", "    options:", "      heading_level: 2"]
    return "\n".join(lines + [f"      {option}" for option in options])


def first_line(path: Path) -> str:
    """What a module says of itself in one line."""
    return said(path).partition("\n")[0]


def said(path: Path) -> str:
    """The docstring of a module."""
    return ast.get_docstring(tree(path)) or ""


def tree(path: Path) -> ast.Module:
    """A module's source, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))
