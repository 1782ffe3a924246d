"""Options of every benchmark that reads the photos of SOLAR_DATA."""

import argparse
import os
import shlex
import sys
from itertools import pairwise
from pathlib import Path


def photo_options(doc: str | None) -> argparse.ArgumentParser:
    """A parser with `--data` and `--json`.

    Args:
        doc: The docstring of the benchmark; its first line describes it.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("--data", type=Path, default=os.environ.get("SOLAR_DATA"))
    parser.add_argument("--json", type=Path, help="also write the results here")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What was given; ends with a sentence where nobody says where the photos are."""
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where the photos are, with --data or SOLAR_DATA")
    return options


# What stands for the path after an option.
_PLACES = {
    "--data": "DIR",
    "--weights": "FOLDER",
    "--out": "FILE",
    "--json": "FILE",
    "--cache": "CACHE",
    "--photos": "FOLDER",
    "--before": "OTHER/src",
}


def command() -> str:
    """How the benchmark was called, with names in place of paths; of NAME=PATH the name alone."""
    shown = [Path(sys.argv[0]).name]
    for before, argument in pairwise(sys.argv):
        shown.append(_PLACES.get(before) or argument.partition("=")[0])
    return "python benchmarks/" + shlex.join(shown)
