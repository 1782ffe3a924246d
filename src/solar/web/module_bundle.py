"""Modules of the web app as one script, for pages that are a single file."""

import re
from pathlib import Path, PurePosixPath

_IMPORT = re.compile(r"^import (\{[^}]*\}|\* as \w+) from \"([^\"]+)\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def bundle(folder: Path, entry: str) -> str:
    """A module and all that it imports, each once, in a function of its own.

    Args:
        folder: Where the modules are.
        entry: The one to run, by its path below. Modules import names in braces or `* as` one, with
            relative paths, and export what they declare.
    """
    done: dict[str, str] = {}
    _add(folder, PurePosixPath(entry), done)
    return "const modules = {};\n" + "".join(done.values())


def _add(folder: Path, name: PurePosixPath, done: dict[str, str]) -> None:
    text = (folder / name).read_text(encoding="utf-8")
    wanted = {path: _resolved(name.parent / path) for _, path in _IMPORT.findall(text)}
    for other in wanted.values():
        if str(other) not in done:
            _add(folder, other, done)

    def given(found: re.Match[str]) -> str:
        names = found[1].removeprefix("* as ").replace(" as ", ": ")
        return f'const {names} = modules["{wanted[found[2]]}"];\n'

    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(given, text))
    done[str(name)] = f'modules["{name}"] = (() => {{\n{body}return {{ {exported} }};\n}})();\n'


def _resolved(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)
