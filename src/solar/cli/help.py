"""How commands take what they are given: `--help` that tells what matters, and paths with a `~`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

METHODS = "{methods}"
"""In the help of an option: the ways to re-rank, which are looked up when somebody asks."""

# A path of somebody's home, perhaps after NAME=, but not a file called "~backup.jpg".
_HOME = re.compile(r"([\w.-]+=)?(~|~[^/\\]*[/\\].*)", re.DOTALL)
_SECRETS = frozenset({"token"})  # no paths, whatever they begin with

Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """Commands below one name, whose help shows switches without a type and a default."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"cls": Group, "no_args_is_help": True, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Register a command, as `typer.Typer.command` does."""
        return super().command(name, **{"cls": Command, **options})


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """What it takes."""
        return _explained(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run it, with home folders in the place of `~`: no shell expands `--output=~/a.npy`."""
        for name, value in ctx.params.items():
            if name not in _SECRETS:
                ctx.params[name] = at_home(value)
        return super().invoke(ctx)


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """What goes before a command."""
        return _explained(super().get_params(ctx))


def at_home(value: Any) -> Any:
    """A value of the command line, or a list of them, with `~/` and `~user/` expanded."""
    if isinstance(value, list | tuple):
        return type(value)(map(at_home, value))
    found = _HOME.fullmatch(str(value)) if isinstance(value, str | Path) else None
    if found is None:
        return value
    try:
        return type(value)(f"{found[1] or ''}{Path(found[2]).expanduser()}")
    except RuntimeError:  # no such user
        return value


def _explained(parameters: list[Any]) -> list[Any]:
    """Help with what `METHODS` stands for, and without what tells a reader nothing.

    Nobody gives a switch a value, and everybody knows that it is off at first.
    """
    for parameter in parameters:
        if METHODS in (getattr(parameter, "help", None) or ""):
            parameter.help = parameter.help.replace(METHODS, _methods())
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
            parameter.show_default = bool(parameter.default)
    return parameters


def _methods() -> str:
    from solar.search.rerank import METHODS

    return " ".join(f"{name}: {method.summary}" for name, method in METHODS.items())
