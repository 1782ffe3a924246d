"""Every sentence that the program says to somebody whose mistake it was, from the source.

A sentence is the argument of `SolarError` or of an exception derived from it. What is only known
when it is said (a path, a number) is shown as `…`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from itertools import product
from pathlib import Path

from hints import HINTS, TOPICS
from reference import SOURCE, first_line, tree

HOLE = "…"
# Functions of `solar.files` that say a sentence, or the rest of one, given as second argument.
SAYING = {"reading": f"{HOLE} {{}}.", "locked": "{}"}


@cache
def sentences() -> dict[Path, tuple[str, ...]]:
    """The sentences of every module that has any, in the order of its lines."""
    found = {path: tuple(_of_module(tree(path))) for path in sorted(SOURCE.rglob("*.py"))}
    return {path: said for path, said in found.items() if said}


def page() -> str:
    """The sentences by package and module, as Markdown: each a heading, for searches to lead to."""
    parts = []
    for package, title in TOPICS.items():
        inside = {path: said for path, said in sentences().items() if package_of(path) == package}
        parts.append(f"### {title}")
        parts += [part for path, said in inside.items() for part in (_head(path), _list(said))]
    return "\n\n".join(parts)


def package_of(path: Path) -> str:
    """`images` for a module of that package, nothing for one beside the packages."""
    return path.relative_to(SOURCE).parent.parts[0] if path.parent != SOURCE else ""


def _head(path: Path) -> str:
    name = ".".join(("solar", *path.relative_to(SOURCE).with_suffix("").parts))
    return f"**{first_line(path).rstrip('.')}** · `{name.removesuffix('.__init__')}`"


def _list(said: tuple[str, ...]) -> str:
    return "\n\n".join(f"##### {shown(sentence)}{_hint(sentence)}" for sentence in said)


def shown(sentence: str) -> str:
    """A sentence as text of the page: nothing in it is Markdown."""
    text = escape(" ".join(sentence.split()), quote=False)
    return re.sub(r"[\\`*_{}\[\]#|~]", lambda letter: f"&#{ord(letter[0])};", text)


def _hint(sentence: str) -> str:
    hints = [hint for part, hint in HINTS.items() if part in sentence]
    return "".join(f"\n\n*{hint}*" for hint in hints)


def _of_module(module: ast.Module) -> Iterator[str]:
    """The sentences said in a module, each once."""
    calls = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and _name(node.func) in {*_exceptions(), *SAYING}
    ]
    calls.sort(key=lambda call: call.lineno)
    said = (text for call in calls for text in _said(call, module))
    yield from dict.fromkeys(text for text in said if re.search("[a-z]", text))


def _said(call: ast.Call, module: ast.Module) -> list[str]:
    form = SAYING.get(_name(call.func))
    argument = call.args[:1] if form is None else call.args[1:2]
    return [(form or "{}").format(text) for one in argument for text in _texts(one, module)]


@cache
def _exceptions() -> frozenset[str]:
    """SolarError and what is derived from it."""
    names = {"SolarError"}
    classes = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    ]
    while more := {c.name for c in classes if names & set(map(_name, c.bases))} - names:
        names |= more
    return frozenset(names)


def _texts(node: ast.expr, module: ast.Module) -> list[str]:
    """What an expression may say: one text for each way through its conditions."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(map(_piece, values))]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return ["".join(both) for both in product(_texts(left, module), _texts(right, module))]
        case ast.IfExp(body=body, orelse=orelse):
            return _texts(body, module) + _texts(orelse, module)
        case ast.Call(func=ast.Name(id=name)):
            return _returned(name, module)
        case ast.Name(id=name):
            return _assigned(name, module)
    return [HOLE]


def _piece(value: ast.expr) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else HOLE


def _returned(function: str, module: ast.Module) -> list[str]:
    """What a function of this module returns."""
    return [
        text
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == function
        for inside in ast.walk(node)
        if isinstance(inside, ast.Return) and inside.value is not None
        for text in _texts(inside.value, module)
    ]


def _assigned(name: str, module: ast.Module) -> list[str]:
    """What a variable of this module is set to, where that is a text."""
    return [
        text
        for node in ast.walk(module)
        if isinstance(node, ast.Assign) and [_name(target) for target in node.targets] == [name]
        if not isinstance(node.value, ast.Name)
        for text in _texts(node.value, module)
    ]


def _name(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))
