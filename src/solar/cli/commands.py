"""All commands as one Typer app, or only the one that was asked for, which starts sooner."""

from collections.abc import Collection
from importlib import import_module
from itertools import chain
from typing import Annotated, Any

import typer

from solar import __version__
from solar.cli.help import Commands, Group

# The commands in the order of help and documentation. Each is a module here with a function of the
# same name and an EXAMPLE, or with an app of commands.
PANELS = {
    "Start": ("demo", "doctor"),
    "Search your photos": ("index", "search", "serve"),
    "Look closer": ("why", "match", "pairs", "duplicates", "groups", "attention", "locate"),
    "Measure": ("evaluate", "evaluate-patches", "calibrate", "reproduce"),
    "Train": ("data", "train", "distill", "adapt"),
    "Embeddings and models": ("describe", "models", "convert", "export"),
}


class _Panels(Group):
    """Keeps the commands in this order, which typer would not do for groups."""

    def __init__(self, *, commands: dict[str, Any], **options: Any) -> None:
        ordered = {}
        for panel, names in PANELS.items():
            for name in names:
                if name in commands:
                    ordered[name] = commands[name]
                    ordered[name].rich_help_panel = panel
        super().__init__(commands=ordered, **options)


def commands(wanted: Collection[str] = ()) -> Commands:
    """The app; of all commands if none is named."""
    app = Commands(
        name="solar",
        help="Find photos of the same place or object among millions.",
        cls=_Panels,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in chain.from_iterable(PANELS.values()):
        if wanted and name not in wanted:
            continue
        module: Any = import_module(f"solar.cli.{name.replace('-', '_')}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name, epilog=getattr(module, "EXAMPLE", None))
        else:
            app.command(name, epilog=module.EXAMPLE)(getattr(module, name.replace("-", "_")))
    return app


def one_command(name: str) -> Commands:
    """The app of a single command; of all if there is none of that name."""
    return commands([name] if name in chain.from_iterable(PANELS.values()) else ())


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"solar {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold the options that come before a command."""
