"""An option has one type and one help text in all commands, so that it has one meaning."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from solar.cli import app
from solar.cli.options import with_settings
from solar.evaluation.settings import EvaluationSettings


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))
TAKERS: dict[str, dict[str, Any]] = {}
for _name, _command in COMMANDS.items():
    for _one in _command.params:
        for _spelling in (*_one.opts, *_one.secondary_opts):
            if _spelling.startswith("-"):
                TAKERS.setdefault(_spelling, {})[_name] = _one


def kind(option: Any) -> str:
    """The type of a value: paths and addresses are texts."""
    found = re.sub(
        r"pathlib\.Path|pathlib\._local\.Path|Path", "str", str(option.type_descriptor.annotation)
    )

    return f"{found} × {option.nargs}{' or more' * option.multiple} {option.metavar}"


@pytest.mark.parametrize("option", TAKERS)
def test_an_option_has_one_meaning_in_all_commands(option: str) -> None:
    meanings = {(kind(one), one.help, tuple(one.opts)) for one in TAKERS[option].values()}
    assert len(meanings) == 1, f"{option} of {', '.join(TAKERS[option])}"
    assert all(one.help for one in TAKERS[option].values())


@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_are_written_in_upper_case_and_an_index_comes_first(command: str) -> None:
    shown = [one.metavar for one in COMMANDS[command].params if not one.opts[0].startswith("-")]
    assert all(shown)
    assert [name for name in shown if name != name.upper() and "RECIPE" not in name] == []
    assert "INDEX" not in shown[1:]


@pytest.mark.parametrize("command", ["convert", "export onnx", "index build", "describe", "why"])
def test_what_is_written_is_named_with_o(command: str) -> None:
    assert command in TAKERS["-o"]


@pytest.mark.parametrize(
    "gone", ["--half", "--expand", "--diffuse", "--no-verify", "--asmk", "--local", "--table"]
)
def test_a_thing_has_one_spelling(gone: str) -> None:
    assert gone not in TAKERS
    assert "search" not in TAKERS["--verify"]


def test_settings_become_options_with_their_defaults_and_help() -> None:
    group = typer.Typer()

    @group.command()
    @with_settings(EvaluationSettings, {"How": ("radius", "answerable", "depth", "features")})
    def measure(what: str, **given: Any) -> None:
        raise NotImplementedError

    command = typer.main.get_command(group)
    options = {one.name: one for one in command.params}
    assert options["radius"].default == EvaluationSettings.radius
    assert "within this many metres" in options["radius"].help
    assert options["features"].nargs == 2
