"""`solar doctor`: check the installation."""

import sys

from solar.cli.options import Json
from solar.cli.printing import errors, print_json
from solar.errors import SolarError

EXAMPLE = "Example: solar doctor > report.txt"


def doctor(
    quick: bool = False,
    json: Json = False,
) -> None:
    """Check what works here, what is missing and how to add it.

    The report names no user or machine, so you can paste it when you ask for help.
    The exit code is 2 if solar cannot work.

    Options:
        quick: Only check what is installed; run nothing.
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
