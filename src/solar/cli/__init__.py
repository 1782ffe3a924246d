"""The `solar` command: one file per command, which only parses and prints."""

import sys
from importlib import import_module
from io import TextIOWrapper
from itertools import chain
from typing import Annotated, Any

import typer

from solar import __version__
from solar.cli.help import Commands, Group
from solar.cli.printing import say
from solar.errors import SolarError

# The commands in the order of help and documentation. Each is a module here with a function of the
# same name and an EXAMPLE, or with an app of commands.
_PANELS = {
    "Start": ("demo", "doctor"),
    "Search your photos": ("index", "search", "serve"),
    "Look closer": ("why", "match", "pairs", "duplicates", "groups", "attention", "locate"),
    "Measure": ("evaluate", "evaluate-patches", "reproduce"),
    "Train": ("data", "train", "distill", "adapt"),
    "Embeddings and models": ("describe", "models", "convert", "export"),
}


class _Panels(Group):
    """Keeps the commands in this order, which typer would not do for groups."""

    def __init__(self, *, commands: dict[str, Any], **options: Any) -> None:
        ordered = {}
        for panel, names in _PANELS.items():
            for name in names:
                ordered[name] = commands[name]
                ordered[name].rich_help_panel = panel
        super().__init__(commands=ordered, **options)


app = Commands(
    name="solar",
    help="Find photos of the same place or object among millions.",
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


for _name in chain.from_iterable(_PANELS.values()):
    _module: Any = import_module(f"solar.cli.{_name.replace('-', '_')}")
    if hasattr(_module, "app"):
        app.add_typer(_module.app, name=_name, epilog=getattr(_module, "EXAMPLE", None))
    else:
        app.command(_name, epilog=_module.EXAMPLE)(getattr(_module, _name.replace("-", "_")))


def main() -> None:
    """Run the command line: a user's mistake is one sentence on stderr and exit code 2."""
    if isinstance(sys.stdout, TextIOWrapper):  # for names that its encoding lacks characters for
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="solar")
    except SolarError as error:
        say(f"solar: {error}", "red")
        sys.exit(2)
    except KeyboardInterrupt:
        say("solar: stopped", "red")
        sys.exit(130)
