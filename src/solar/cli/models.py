"""`solar models`: what can be loaded by name."""

from typing import Annotated

import typer

EXAMPLE = "Example: solar models --task retrieval"


def models(
    task: Annotated[
        str | None, typer.Option(help="Only retrieval, patches, backbone or whitening.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,
) -> None:
    """List every model that can be loaded by name, and whether its file is here already."""
    from dataclasses import asdict

    from solar.cli.printing import output, print_json
    from solar.errors import SolarError
    from solar.models import zoo

    entries = [entry for entry in zoo.models() if task in (None, entry.task)]
    if not entries:
        tasks = ", ".join(sorted({entry.task for entry in zoo.models()}))
        raise SolarError(f"No model is for {task!r}: the tasks are {tasks}.")
    if json:
        print_json([{**asdict(entry), "here": zoo.is_here(entry)} for entry in entries])
        return

    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in (
        "name",
        "task",
        "dim",
        "parameters",
        "trained on",
        "ROxf M/H",
        "RPar M/H",
        "here",
    ):
        table.add_column(heading, justify="right" if heading in ("dim", "parameters") else "left")
    for entry in entries:
        table.add_row(
            entry.name,
            entry.task,
            str(entry.dim),
            f"{entry.parameters / 1e6:.1f} M",
            entry.trained_on,
            _scores(entry.reported.get("roxford5k")),
            _scores(entry.reported.get("rparis6k")),
            "yes" if zoo.is_here(entry) else "",
        )
    console = output()
    console.print(table)
    console.print(
        "\nmAP in percent as its authors report it. Files are kept in", zoo.cache_directory()
    )


def _scores(reported: object) -> str:
    if not isinstance(reported, dict):
        return ""
    return "/".join(f"{reported[level]:.1f}" for level in ("medium", "hard") if level in reported)
