"""The Python reference: which docstrings stand on which page. Nothing is imported."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

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
