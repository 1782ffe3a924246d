"""The code that README and documentation show: what is run, what is not and why.

Fenced blocks of `python`, `sh`, `bash` and `console` are run, in the order of their page. Two
comments are meant for this:

    <!-- not run: downloads 1.9 GB -->     right before a block: why it cannot be run here
    <!-- first: solar index build … -->    commands to run here that no reader needs to see
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
SHELLS = ("sh", "bash", "console")
RUN = ("python", *SHELLS)
# What may be shown and is no program.
SHOWN = ("text", "json", "yaml", "toml", "csv", "bibtex")

_TOKEN = re.compile(
    r"^[ ]*<!--\s*(?P<comment>not run|first):\s*(?P<said>.*?)\s*-->"
    r"|^(?P<indent>[ ]*)(?P<fence>`{3,})(?P<language>[^\n`]*)\n"
    r"(?P<code>.*?)^(?P=indent)(?P=fence)[ ]*$",
    re.DOTALL | re.MULTILINE,
)
_INLINE = re.compile(r"(?<!`)`(solar [^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A piece of code of a page, or a command in its text.

    Attributes:
        page: Its path below the repository.
        line: Where its code starts, from 1.
        language: As named at its fence; `inline` for a command in the text.
        code: Without the fence, and in `console` blocks without the prompts.
        reason: Why it is not run, or None.
    """

    page: str
    line: int
    language: str
    code: str
    reason: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page whose code is run."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, and what runs before them unseen.

    Raises:
        ValueError: A reason stands before something else than a block.
    """
    text, name = page.read_text(encoding="utf-8"), page.relative_to(REPOSITORY).as_posix()
    found: list[Block] = []
    reason, ended = None, 0
    for token in _TOKEN.finditer(text):
        if reason is not None and text[ended : token.start()].strip():
            raise ValueError(f"{name}: no block follows the reason {reason!r}.")
        line = text.count("\n", 0, token.start("said" if token["comment"] else "code")) + 1
        ended = token.end()
        if token["comment"] == "not run":
            reason = token["said"]
        elif token["comment"] == "first":
            found.append(Block(name, line, "sh", token["said"]))
        else:
            language = (token["language"].split() or [""])[0]
            code = _unindented(token["code"], token["indent"])
            found.append(Block(name, line, language, _prompted(code, language), reason))
            reason = None
    if reason is not None:
        raise ValueError(f"{name}: no block follows the reason {reason!r}.")
    return found


def inline_commands(page: Path) -> list[Block]:
    """Commands of solar in the text, as in `solar models --json`."""
    name = page.relative_to(REPOSITORY).as_posix()
    lines = page.read_text(encoding="utf-8").splitlines()
    return [
        Block(name, number, "inline", command)
        for number, line in enumerate(lines, 1)
        for command in _INLINE.findall(line)
    ]


def unknown_words(code: str) -> Iterator[str]:
    """Commands and options of solar that do not exist, in a piece of shell."""
    for line in code.replace("\\\n", " ").splitlines():
        # Alternatives and omissions are for people: `solar index add|remove`, `solar train …`.
        parts = re.split(r"(?:^|[;&|]\s*|-m\s+)solar\s", line.partition(" #")[0])[1:]
        for part in parts if not re.search(r"\w\|\w", line) else []:
            yield from _unknown(_words(part.split("&&")[0]))


def _unknown(words: list[str]) -> Iterator[str]:
    command = root_command()
    for word in words:
        below = getattr(command, "commands", {})
        if word in below:
            command = below[word]
        elif below and not word.startswith("-") and re.fullmatch("[a-z]+", word):
            yield f"{word} (no such command)"
            return
        elif re.match("--?[a-z]", word) and word.partition("=")[0] not in _options(command):
            yield f"{word} (no such option of {command.name})"


def _options(command: Any) -> set[str]:
    names = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    return names | {"--help", "-h"}


@cache
def root_command() -> Any:
    import typer

    from solar.cli import app

    return typer.main.get_command(app)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that the text does not close
        return text.split()


def _unindented(code: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))


def _prompted(code: str, language: str) -> str:
    if language != "console":
        return code
    return "".join(line.removeprefix("$ ") for line in code.splitlines(keepends=True))
