"""All commands as one Typer app, or only the one that was asked for, which starts sooner."""

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


class _InOrder(Group):
    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in this order; typer would list those with their own commands last."""
        return [name for names in PANELS.values() for name in names if name in self.commands]


def commands(only: str = "") -> Commands:
    """The app; of a single command, if one has that name."""
    wanted = [only] if only in chain.from_iterable(PANELS.values()) else ()
    app = Commands(
        name="solar",
        help="Find photos of the same place or object among millions.",
        cls=_InOrder,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for panel, names in PANELS.items():
        for name in [name for name in names if not wanted or name in wanted]:
            module: Any = import_module(f"solar.cli.{name.replace('-', '_')}")
            known: Any = {"epilog": getattr(module, "EXAMPLE", None), "rich_help_panel": panel}
            if hasattr(module, "app"):
                app.add_typer(module.app, name=name, **known)
            else:
                app.command(name, **known)(getattr(module, name.replace("-", "_")))
    return app


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
