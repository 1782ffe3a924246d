"""The `solar` command: one file a command, which only parses and prints."""

import sys
from typing import Annotated, Any

import typer

from solar import __version__
from solar.cli import (
    attention,
    convert,
    data,
    demo,
    describe,
    distill,
    doctor,
    evaluate,
    export,
    extract,
    index_commands,
    match,
    models,
    search,
    serve,
    train,
)
from solar.cli.help import Commands, Group
from solar.cli.printing import errors
from solar.errors import SolarError

# As `solar --help` and the documentation show them: what a newcomer needs comes first.
_PANELS = {
    "Start": ("demo", "doctor"),
    "Search your photos": ("index", "search", "serve"),
    "Look closer": ("match", "attention"),
    "Measure": ("evaluate",),
    "Train": ("data", "train", "distill"),
    "Descriptors and models": ("describe", "extract", "models", "convert", "export"),
}


class _Panels(Group):
    """Brings the commands into that order."""

    def __init__(self, *, commands: dict[str, Any], **options: Any) -> None:
        ordered = {}
        for panel, names in _PANELS.items():
            for name in names:
                ordered[name] = commands[name]
                ordered[name].rich_help_panel = panel
        super().__init__(commands=ordered, **options)


app = Commands(
    name="solar",
    help="Find the same place or object again in millions of photos.",
    cls=_Panels,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"solar {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold the options that come before a command."""


app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
app.add_typer(index_commands.app, name="index")
app.command("search", epilog=search.EXAMPLE)(search.search)
app.command("serve", epilog=serve.EXAMPLE)(serve.serve)
app.command("match", epilog=match.EXAMPLE)(match.match)
app.command("attention", epilog=attention.EXAMPLE)(attention.attention)
app.command("evaluate", epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.add_typer(data.app, name="data")
app.command("train", epilog=train.EXAMPLE)(train.train)
app.command("distill", epilog=distill.EXAMPLE)(distill.distill)
app.command("describe", epilog=describe.EXAMPLE)(describe.describe)
app.command("extract", epilog=extract.EXAMPLE)(extract.extract)
app.command("models", epilog=models.EXAMPLE)(models.models)
app.command("convert", epilog=convert.EXAMPLE)(convert.convert)
app.add_typer(export.app, name="export", epilog=export.EXAMPLE)


def main() -> None:
    """Run the command line: a user's mistake is one sentence on stderr and exit code 2."""
    try:
        app(prog_name="solar")
    except SolarError as error:
        errors().print(f"solar: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        errors().print("solar: stopped", style="red")
        sys.exit(130)
