"""How commands explain themselves: `--help` without what tells a reader nothing."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

METHODS = "{methods}"
"""In the help of an option: the ways to re-rank, which are looked up when somebody asks."""

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


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """What goes before a command."""
        return _explained(super().get_params(ctx))


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
