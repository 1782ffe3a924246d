"""`solar models`: what can be loaded by name."""

from typing import TYPE_CHECKING, Annotated

import typer

from solar.cli.completion import any_models

if TYPE_CHECKING:
    from solar.models.zoo import NamedModel

EXAMPLE = "Example: solar models solar-r18"

_HEADINGS = ("name", "task", "dim", "parameters", "trained on", "ROxf M/H", "RPar M/H", "here")


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Tell more of this one: the card of a model in the box.", autocompletion=any_models
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Only retrieval, patches, backbone or whitening.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,
) -> None:
    """List every model that can be loaded by name: in the box, downloaded already, or not yet."""
    from dataclasses import asdict

    from solar.cli.printing import print_json
    from solar.errors import SolarError
    from solar.models import zoo

    if name is not None:
        entries = [zoo.find(name)]
    else:
        entries = [entry for entry in zoo.models() if task in (None, entry.task)]
    if not entries:
        tasks = ", ".join(sorted({entry.task for entry in zoo.models()}))
        raise SolarError(f"No model is for {task!r}: the tasks are {tasks}.")
    if json:
        print_json([{**asdict(entry), "here": zoo.is_here(entry)} for entry in entries])
    elif name is None:
        _print_table(entries)
    else:
        _print_one(entries[0])


def _print_table(entries: "list[NamedModel]") -> None:
    from rich.table import Table

    from solar.cli.printing import output
    from solar.models import zoo
    from solar.weights import DEFAULT

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading in ("dim", "parameters") else "left")
    for entry in entries:
        here = "in the box" if entry.bundled else "yes"
        table.add_row(
            entry.name,
            entry.task,
            str(entry.dim),
            f"{entry.parameters / 1e6:.1f} M",
            entry.trained_on,
            _scores(entry.reported.get("roxford5k")),
            _scores(entry.reported.get("rparis6k")),
            here if zoo.is_here(entry) else "",
        )
    console = output()
    console.print(table)
    console.print(
        f"\nThose in the box come with solar and work offline; {DEFAULT} is taken where no model "
        f"is named, and `solar models {DEFAULT}` shows its card.\nmAP in percent as its authors "
        "report it. Downloads are kept in",
        zoo.cache_directory(),
        soft_wrap=True,
    )


def _print_one(entry: "NamedModel") -> None:
    """The card of a model in the box; of another what its publisher says."""
    from rich.markdown import Markdown
    from rich.table import Table

    from solar import weights
    from solar.cli.printing import output
    from solar.models import zoo

    if entry.bundled:
        # Comments tell the program that measures where to write, and readers nothing.
        lines = weights.card(entry.name).splitlines()
        shown = "\n".join(line for line in lines if not line.startswith("<!--"))
        output().print(Markdown(shown))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    told: dict[str, object] = {
        "name": entry.name,
        "task": entry.task,
        "architecture": entry.architecture,
        "attention": entry.attention or "none",
        "dim": entry.dim,
        "parameters": f"{entry.parameters:,}",
        "trained on": entry.trained_on,
        "licence": entry.licence,
        **{
            name: ", ".join(f"{level} {value}" for level, value in values.items())
            for name, values in entry.reported.items()
        },
        "from": entry.urls[0],
        "file": zoo.path_of(entry) if zoo.is_here(entry) else "not downloaded yet",
    }
    for key, value in told.items():
        table.add_row(key, str(value))
    output().print(table)


def _scores(reported: object) -> str:
    if not isinstance(reported, dict):
        return ""
    return "/".join(f"{reported[level]:.1f}" for level in ("medium", "hard") if level in reported)
