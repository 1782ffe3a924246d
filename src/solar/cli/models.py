"""`solar models`: what can be loaded by name."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from solar import weights
from solar.cli.completion import any_models
from solar.cli.printing import output, print_json
from solar.errors import SolarError, printable

if TYPE_CHECKING:
    from solar.models.zoo import NamedModel

EXAMPLE = "Example: solar models solar-r18"

_DESCRIBING = ("retrieval", "patches", "local")


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Tell more of this one: the card of a model in the box.", autocompletion=any_models
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Only retrieval, patches, local, backbone or whitening.")
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Also backbones and whitenings of older networks, and all facts."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="All of them, for a program.")] = False,
) -> None:
    """List the models in the box, and those that can be downloaded."""
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
    elif name is not None:
        _print_one(entries[0])
    else:
        shown = [
            entry
            for entry in entries
            if every or task or entry.task in _DESCRIBING or zoo.is_here(entry)
        ]
        _print_table(shown, every=every, left_out=len(entries) - len(shown))


def _print_table(entries: "list[NamedModel]", *, every: bool, left_out: int) -> None:
    """Those that are here come first; a table of eighty columns unless all facts are wanted."""
    from solar.models import zoo

    table = Table(box=None, header_style="bold", pad_edge=False)
    rows = [_row(entry, every) for entry in sorted(entries, key=lambda e: not zoo.is_here(e))]
    for heading in rows[0]:
        table.add_column(heading, justify="right" if heading in ("dim", "parameters") else "left")
    for row in rows:
        table.add_row(*row.values())
    default = weights.DEFAULT
    lines = [f"{default} is taken where no model is named; its card: solar models {default}"]
    if left_out:
        lines.insert(0, f"{left_out} more, parts of older networks: solar models --all")
    lines.append(
        f"The others are downloaded when they are first named, into {zoo.cache_directory()}"
    )
    if any(entry.by_hand for entry in entries):
        lines.append("by hand: download it with a browser; solar models NAME says where to put it.")
    if any(entry.recipe for entry in entries):
        lines.append("to train: nobody publishes it; solar models NAME names the recipe.")
    lines.append("ROxf, RPar: mAP in percent, medium/hard, as the authors report it.")
    lines += dict.fromkeys(f"* {entry.caveat}" for entry in entries if entry.caveat)
    console = output()
    console.print(table)
    console.print("\n" + "\n".join(lines), markup=False, soft_wrap=True)


def _row(entry: "NamedModel", every: bool) -> dict[str, str]:
    from solar.models import zoo

    here = "in the box" if entry.bundled else "downloaded"
    facts = {"parameters": f"{entry.parameters / 1e6:.1f} M", "trained on": entry.trained_on}
    return {
        "name": entry.name,
        "task": entry.task,
        "dim": str(entry.dim),
        **(facts if every else {}),
        "ROxf M/H": _scores(entry, "roxford5k"),
        "RPar M/H": _scores(entry, "rparis6k"),
        "here": here if zoo.is_here(entry) else _missing(entry),
    }


def _missing(entry: "NamedModel") -> str:
    """How to get what is not here."""
    return "to train" if entry.recipe else "by hand" if entry.by_hand else "to download"


def _print_one(entry: "NamedModel") -> None:
    """The card of a model in the box; of another what its publisher says."""
    from rich.markdown import Markdown

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
        **({"note": entry.caveat} if entry.caveat else {}),
        "from": entry.recipe or entry.by_hand or entry.urls[0],
        "file": str(zoo.path_of(entry)) + ("" if zoo.is_here(entry) else " (not downloaded yet)"),
    }
    for key, value in told.items():
        table.add_row(key, Text(printable(value)))
    output().print(table)


def _scores(entry: "NamedModel", dataset: str) -> str:
    """Results on a set, medium/hard, with a star where something must be said beside them."""
    found = entry.reported.get(dataset, {})
    scores = "/".join(f"{found[level]:.1f}" for level in ("medium", "hard") if level in found)
    return f"{scores}*" if scores and entry.caveat else scores
