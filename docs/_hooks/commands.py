"""The command reference, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_NOTES = re.compile(r"\s*\[(?P<notes>[^\[\]]*)\]$")


def all_commands() -> str:
    """Every command with its usage, example, arguments and options, as Markdown."""
    import typer

    from solar.cli import app

    root: Any = typer.main.get_command(app)
    return "\n\n".join(
        section for name in root.commands for section in _sections(root.commands[name], name, None)
    )


def _sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    """A command, then the commands below it."""
    above = parent or command.context_class(command, info_name="solar")
    context = command.context_class(command, info_name=name, parent=above)
    yield _section(command, context, level=2 if parent is None else 3)
    for below in getattr(command, "commands", {}):
        yield from _sections(command.commands[below], below, context)


def _section(command: Any, context: Any, level: int) -> str:
    title = context.command_path
    parts = [f"{'#' * level} {title}", _prose(command.help or "")]
    usage = command.get_usage(context).removeprefix("Usage: ")
    if not hasattr(command, "commands"):
        parts.append(f"```text\n{' '.join(usage.split())}\n```")
    if command.epilog:
        parts.append(f"```sh\n{command.epilog.removeprefix('Example: ')}\n```")
    for kind, heading in (("argument", "argument"), ("option", "option")):
        rows = [
            _row(*record)
            for parameter in command.get_params(context)
            if parameter.param_type_name == kind and parameter.name != "help"
            if (record := parameter.get_help_record(context))
        ]
        if rows:
            parts.append("\n".join([f"| {heading} | | |", "|---|---|---|", *rows]))
    return "\n\n".join(part for part in parts if part)


def _row(names: str, text: str) -> str:
    """A row of a table: how it is written, what it means, its default or range."""
    notes = _NOTES.search(text)
    said = text[: notes.start()] if notes else text
    rest = notes["notes"] if notes else ""
    rest = "" if rest.startswith("default: no-") else rest
    return f"| {_code(names)} | {_cell(said)} | {_cell(rest)} |"


def _code(text: str) -> str:
    return "<code>" + _cell(text).replace(" / ", "</code> / <code>") + "</code>"


def _cell(text: str) -> str:
    """Text that neither ends a cell nor starts anything of Markdown's or HTML's."""
    text = " ".join(text.split())
    return "".join(f"&#{ord(letter)};" if letter in "&<|*_" else letter for letter in text)


def _prose(help_text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in help_text.split("\n\n"))
