"""The package is the pipeline: imports point one way, and only the command line prints.

Read from the source alone, so that imports inside functions, imports for the type checker and
modules named in texts, as for `import_module("solar.ranking.expand")`, count like any other.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import solar

ROOT = Path(solar.__file__).parent

# A photo's way. A package imports packages to its left only, and itself.
LAYERS = (
    "lazy",
    "errors",
    "defaults",
    "arrays",
    "files",
    "records",
    "download",
    "images",
    "nn",
    "weights",
    "models",
    "describe",
    "local",
    "matching",
    "storage",
    "client",  # of the web app: requests, answered with hits
    "ranking",
    "index",
    "sfm",
    "albums",
    "near_duplicates",
    "asmk",
    "datasets",  # its cleaning compares photos; it feeds evaluation and training
    "evaluation",
    "show",
    "demo",  # generated landmarks; what needs none of them never imports it
    "losses",
    "training",
    "reproduction",  # trains and measures the rows of the paper's tables
    "web",
    "doctor",
    "cli",
    "__main__",
)
# Tensors in, tensors out: these know nothing of files, downloads and photos.
PURE = {"nn", "losses"}
# Opened when a folder says so: the one table that names a module of a later room.
PLUGGED_IN = {("solar.index.index", "solar.asmk.index")}
# Write to a terminal although they are no commands.
WRITERS = {
    "solar.training.progress": "warns, above the bar of a training run",
}


class Import(NamedTuple):
    """A module, a module or package that it names, and where."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def _module(path: Path) -> str:
    parts = ("solar", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {_module(path): ast.parse(path.read_bytes()) for path in sorted(ROOT.rglob("*.py"))}


def _named(node: ast.AST) -> Iterator[str]:
    """What an import names, down to the module; `solar.version` for `from solar import version`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "Imports are written in full."
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            yield whole if whole in TREES or node.module == "solar" else str(node.module)
    elif isinstance(node, ast.Constant) and node.value in TREES and "." in node.value[6:]:
        yield node.value  # "solar.web" alone is the name of a logger


def _imports() -> list[Import]:
    return [
        Import(module, name, getattr(node, "lineno", 0))
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        for name in _named(node)
        if name.split(".")[0] == "solar" and name != module
    ]


IMPORTS = _imports()
# `import solar` is the front door: it names what it offers, and nobody inside goes through it.
INSIDE = [one for one in IMPORTS if one.importer != "solar" and one.imported.count(".")]
FIXED = [one for one in INSIDE if one[:2] not in PLUGGED_IN]


def _package(module: str) -> str:
    return module.split(".")[1]


def test_the_source_was_read() -> None:
    assert len(INSIDE) > 500
    assert {one[:2] for one in INSIDE} >= PLUGGED_IN  # also where a table names it


def test_every_package_has_its_place_in_the_order() -> None:
    assert {_package(module) for module in TREES if module != "solar"} <= set(LAYERS)


def test_imports_point_upstream() -> None:
    named = [one for one in FIXED if one.imported != "solar.__version__"]
    place = {package: place for place, package in enumerate(LAYERS)}
    wrong = [
        str(one) for one in named if place[_package(one.imported)] > place[_package(one.importer)]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", sorted(PURE))
def test_the_paper_s_parts_know_nothing_of_files(package: str) -> None:
    mine = [one for one in INSIDE if _package(one.importer) == package]
    wrong = [str(one) for one in mine if _package(one.imported) not in {"errors", package, "nn"}]
    assert not wrong, "\n".join(wrong)


def test_nobody_inside_goes_through_the_front_door() -> None:
    names = {f"solar.{name}" for name in solar.__all__}
    wrong = [
        str(one)
        for one in IMPORTS
        if one.importer != "solar"
        and (one.imported == "solar" or (one.imported in names and one.imported not in TREES))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in TREES}
    for one in FIXED:
        if one.imported in TREES:
            graph[one.importer].add(one.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" ← ".join(error.args[1]))


def _writes(tree: ast.AST) -> Iterator[str]:
    """Lines that print, or that name the standard output or error."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "typer.echo"):
            yield f"line {node.lineno} prints"
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr"):
            yield f"line {node.lineno} writes to {ast.unparse(node)}"


def test_only_the_command_line_prints() -> None:
    wrong = [
        f"{module}, {what}"
        for module, tree in TREES.items()
        if module.split(".")[1:2] != ["cli"] and module not in WRITERS
        for what in _writes(tree)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("module", sorted(WRITERS))
def test_an_exception_for_writers_is_still_needed(module: str) -> None:
    assert list(_writes(TREES[module]))
