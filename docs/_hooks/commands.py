"""The command reference, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

WIDTH = 78  # letters of code in a line of the page
_NOTES = re.compile(r"\s*\[(?P<notes>[^\[\]]*)\]$")


def all_commands() -> str:
    """Every command with its usage, example, arguments and options, as Markdown."""
    import typer

    from solar.cli import app

    root: Any = typer.main.get_command(app)
    return "\n\n".join(_below(root, root.context_class(root, info_name="solar"), level=2))


def _below(group: Any, context: Any, level: int) -> Iterator[str]:
    """The commands of a group, each followed by those below it."""
    for name in group.list_commands(context):
        command = group.commands[name]
        inside = command.context_class(command, info_name=name, parent=context)
        yield _section(command, inside, level)
        if hasattr(command, "commands"):
            yield from _below(command, inside, level + 1)


def _section(command: Any, context: Any, level: int) -> str:
    parts = [f"{'#' * level} {context.command_path}", _prose(command.help or "")]
    if not hasattr(command, "commands"):
        usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
        example = _folded((command.epilog or "").removeprefix("Example: "))
        parts.append(f"```text\n{usage}\n\n{example}".rstrip() + "\n```")
    rows = [
        _row(*record)
        for kind in ("argument", "option")
        for parameter in command.get_params(context)
        if parameter.param_type_name == kind and parameter.name != "help"
        if (record := parameter.get_help_record(context))
    ]
    if rows:
        parts.append("\n".join(["| argument, option | meaning |", "|---|---|", *rows]))
    return "\n\n".join(part for part in parts if part)


def _folded(example: str) -> str:
    """An example that is too long for a line of the page goes on in the next, before an option."""
    first, *options = re.split(r" (?=-)", example)
    lines = [first]
    for option in options:
        if len(f"{lines[-1]} {option}") > WIDTH:
            lines.append(f"    {option}")
        else:
            lines[-1] += f" {option}"
    return " \\\n".join(lines)


def _row(names: str, text: str) -> str:
    """A row of a table: how it is written; what it means, with its default or range."""
    notes = _NOTES.search(text)
    said = text[: notes.start()] if notes else text
    rest = notes["notes"] if notes else ""
    kind = re.sub(r"<(?:list\[)?(\w+)[^>]*>", lambda found: f"<{found[1].lower()}>", names)
    return f"| {_code(kind)} | {_cell(said)} {f'*{_cell(rest)}*' if rest else ''} |"


def _code(text: str) -> str:
    return "<code>" + _cell(text).replace(" / ", "</code> / <code>") + "</code>"


def _cell(text: str) -> str:
    """Text that neither ends a cell nor starts anything of Markdown's or HTML's."""
    text = " ".join(text.split())
    return "".join(f"&#{ord(letter)};" if letter in "&<|*_" else letter for letter in text)


def _prose(help_text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in help_text.split("\n\n"))
