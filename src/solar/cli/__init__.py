"""The `solar` command: one file per command, which only parses and prints."""

import sys
from typing import TYPE_CHECKING, Any

from solar import __version__

if TYPE_CHECKING:
    from solar.cli.help import Commands

    app: Commands


def __getattr__(name: str) -> Any:
    """The app of all commands, made when it is first used."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from solar.cli.commands import commands

    globals()["app"] = made = commands()
    return made


def main() -> None:
    """Run the command line: a user's mistake is one sentence on stderr and exit code 2."""
    given = sys.argv[1:]
    if given == ["--version"]:  # without the second that the rest takes on a slow machine
        sys.stdout.write(f"solar {__version__}\n")
        return
    from io import TextIOWrapper

    from solar.cli.commands import commands
    from solar.cli.printing import say
    from solar.errors import SolarError

    if isinstance(sys.stdout, TextIOWrapper):  # for names that its encoding lacks characters for
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        commands(given[0] if given else "")(prog_name="solar")
    except SolarError as error:
        say(f"solar: {error}", "red")
        sys.exit(2)
    except KeyboardInterrupt:
        say("solar: stopped", "red")
        sys.exit(130)
