"""Commands with help from docstrings, and options named in errors."""

import inspect
import re
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from solar.errors import SolarError

_SETTING = re.compile(r"`(\w+)=([^`]*)`")  # how errors of the library name a parameter

OPTIONS: dict[str, tuple[str, ...]] = {}
"""The option of each parameter of the running command, and the option that switches it off."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """Commands below one name; the section `Options:` of their docstrings is their options' help.

    A bool that is not declared with `typer.Option` is a switch, off by default.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"cls": Group, "no_args_is_help": True, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Register a command, as `typer.Typer.command` does."""
        register = super().command(name, **{"cls": Command, **options})

        def decorate(function: Function) -> Function:
            register(_with_help(function))
            return function

        return decorate


class _Helpful:
    def get_params(self, ctx: Any) -> list[Any]:
        return _explained(super().get_params(ctx))  # type: ignore[misc]


class Command(_Helpful, TyperCommand):
    """A command that names options in errors of the library."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        OPTIONS.clear()
        for one in self.params:
            if one.opts[0].startswith("-"):
                OPTIONS[one.name] = (one.opts[0], *one.secondary_opts)
        try:
            return super().invoke(ctx)
        except SolarError as error:
            error.args = (with_options(str(error)), *error.args[1:])
            raise


class Group(_Helpful, TyperGroup):
    """A group of commands."""


def documented(docstring: str | None, section: str) -> dict[str, str]:
    """The texts of a section of a docstring by name, on one line each."""
    text = inspect.cleandoc(docstring or "").partition(f"{section}:\n")[2]
    found = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", text, re.MULTILINE)
    return {name: " ".join(lines.split()) for name, lines in found}


def _with_help(function: Callable[..., Any]) -> Callable[..., Any]:
    texts, signature = documented(function.__doc__, "Options"), inspect.signature(function)

    def declared(one: inspect.Parameter) -> inspect.Parameter:
        if one.name not in texts:
            return one
        switch = [f"--{one.name.replace('_', '-')}"]
        kind, info = one.annotation, typer.Option(*switch * (one.annotation is bool))
        if get_origin(kind) is Annotated:
            kind, info = get_args(kind)
        info = copy(info)
        info.help = texts[one.name]
        return one.replace(annotation=Annotated[kind, info])

    def run(**given: Any) -> None:
        function(**given)

    run.__name__ = function.__name__
    run.__doc__ = (function.__doc__ or "").partition("\n    Options:\n")[0]
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[declared(one) for one in signature.parameters.values()]
    )
    return run


def with_options(text: str) -> str:
    """An error of the library with `--max-pixels 9` in place of the parameter `max_pixels=9`."""

    def option(found: re.Match[str]) -> str:
        on, *off = OPTIONS.get(found[1], ("",))
        if not on:
            return found[0]
        if found[2] == "False" and off:
            return off[0]
        return f"{on} {found[2].removesuffix('True').strip(chr(34))}".rstrip()

    return _SETTING.sub(option, text)


def _explained(parameters: list[Any]) -> list[Any]:
    """Show switches without a type and a default that is off."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
            parameter.show_default = bool(parameter.default)
    return parameters
