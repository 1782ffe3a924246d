"""The plan of the package: folders a newcomer can survey, and nothing too large to be read at once.

Read from the source alone, as in test_imports.py.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import solar

ROOT = Path(solar.__file__).parent
LINES = 600
MODULES = 16  # of a folder, without __init__.py; cli/ has one for every command
PARAMETERS = 10
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc"}

SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(ROOT.rglob("*.py"))
}
TREES = {name: ast.parse(text) for name, text in SOURCES.items()}

Node = TypeVar("Node", bound=ast.AST)


def _nodes(kind: type[Node]) -> Iterator[tuple[str, Node]]:
    for path, tree in TREES.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, kind))


def _parameters(args: ast.arguments) -> int:
    """How many a caller can give; `*args` and `**kwargs` count as one each."""
    given = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    names = [one.arg for one in given if one is not None]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_the_source_was_read() -> None:
    assert len(SOURCES) > 150
    assert any(_parameters(node.args) > 3 for _, node in _nodes(ast.FunctionDef))


def test_no_folder_is_crowded() -> None:
    modules = Counter(Path(path).parent for path in SOURCES if not path.endswith("__init__.py"))
    crowded = {str(folder): count for folder, count in modules.items() if count > MODULES}
    crowded.pop("cli", None)
    assert not crowded


def test_names_say_something_and_do_not_repeat_their_folder() -> None:
    """`duplicates/report.py`, not `duplicates/duplicate_report.py`; no `utils.py` anywhere."""
    wrong = [
        path
        for path in map(Path, SOURCES)
        if path.stem in SAYS_NOTHING
        or (path.parent.name and path.stem.startswith(path.parent.name.rstrip("s") + "_"))
    ]
    assert not wrong


def test_no_class_name_occurs_twice_in_a_package() -> None:
    names = Counter((path.split("/")[0], node.name) for path, node in _nodes(ast.ClassDef))
    assert not [f"{package}: {name}" for (package, name), count in names.items() if count > 1]


def test_no_module_is_too_long() -> None:
    lengths = {path: len(text.splitlines()) for path, text in SOURCES.items()}
    long = [f"{path}: {length} lines" for path, length in lengths.items() if length > LINES]
    assert not long, "\n".join(long)


def test_no_function_takes_too_much() -> None:
    """Commands have as many options as they offer; a GPU kernel has no other way to be told."""
    wrong = [
        f"{path}:{node.lineno} {node.name} has {count} parameters"
        for kind in (ast.FunctionDef, ast.AsyncFunctionDef)
        for path, node in _nodes(kind)
        if (count := _parameters(node.args)) > PARAMETERS
        if not path.startswith("cli/")
        if not any(ast.unparse(one).startswith("triton.jit") for one in node.decorator_list)
    ]
    assert not wrong, "\n".join(wrong)


def test_only_nn_asks_which_backbone_it_has() -> None:
    """Everywhere else the table of backbones answers, so that a new one is a file and a line."""
    wrong = [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path, node in _nodes(ast.Call)
        if not path.startswith("nn/")
        if ast.unparse(node.func) in ("isinstance", "issubclass")
        if re.search(r"\bResNet\b", ast.unparse(node.args[1]))
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_are_plain_modules() -> None:
    """No class of a module, no entry of `sys.modules` is exchanged behind a reader's back."""
    wrong = [
        f"{path}:{number} {line.strip()}"
        for path, text in SOURCES.items()
        for number, line in enumerate(text.splitlines(), 1)
        if "sys.modules[" in line
    ]
    assert not wrong, "\n".join(wrong)
