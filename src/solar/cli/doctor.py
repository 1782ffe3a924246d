"""`solar doctor`: what works here, and what could."""

import sys
from typing import Annotated

import typer

from solar.cli.options import Json
from solar.cli.printing import errors, print_json
from solar.errors import SolarError

EXAMPLE = "Example: solar doctor > report.txt"


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Only look what is installed, without trying it out.")
    ] = False,
    json: Json = False,
) -> None:
    """Tell what works here, what is missing and how to add it.

    Paste it where you ask for help: it holds no name of a user or a machine. The
    exit code is 2 where solar cannot work.
    """
    from solar.doctor import examine

    console = errors()
    if console.is_terminal:
        with console.status("Trying out what is installed …"):
            report = examine(quick=quick)
    else:
        report = examine(quick=quick)
    if json:
        print_json(report.to_json())
    else:
        sys.stdout.write(report.to_text() + "\n")
    if report.problems:
        raise SolarError(report.problems[0])
