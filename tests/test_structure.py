"""The plan of the package: one name for one thing, and nothing too large to be read at once.

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
LINES = 420
PARAMETERS = 10

SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(ROOT.rglob("*.py"))
}
TREES = {name: ast.parse(text) for name, text in SOURCES.items()}

Node = TypeVar("Node", bound=ast.AST)


def _nodes(kind: type[Node]) -> Iterator[tuple[str, Node]]:
    for path, tree in TREES.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, kind))


def _places(named: dict[str, str]) -> list[str]:
    """Places whose names occur more than once, as `name: place`."""
    often = Counter(named.values())
    return sorted(f"{name}: {place}" for place, name in named.items() if often[name] > 1)


def _parameters(args: ast.arguments) -> int:
    """How many a caller can give; `*args` and `**kwargs` count as one each."""
    given = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    names = [one.arg for one in given if one is not None]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_the_source_was_read() -> None:
    assert len(SOURCES) > 150
    assert any(_parameters(node.args) > 3 for _, node in _nodes(ast.FunctionDef))


def test_no_two_modules_share_a_name() -> None:
    modules = {path: Path(path).stem for path in SOURCES}
    twice = _places(
        {p: name for p, name in modules.items() if name not in ("__init__", "__main__")}
    )
    assert not twice, "\n".join(twice)


def test_no_two_classes_share_a_name() -> None:
    classes = {f"{path}:{node.lineno}": node.name for path, node in _nodes(ast.ClassDef)}
    assert not _places(classes), "\n".join(_places(classes))


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
