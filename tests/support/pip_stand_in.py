"""Stands in for `pip install` where documentation is run: would it find what is asked for?

Ends with 0 if every requirement is this project, with extras that it has, or something that the
constraints name. Installs nothing.
"""

import re
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def main(arguments: list[str]) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    constraints = (REPOSITORY / "constraints.txt").read_text().lower().splitlines()
    pinned = {line.partition("==")[0].replace("_", "-") for line in constraints}
    if arguments[:1] != ["install"]:
        sys.exit(f"pip {arguments[0]} is not what the documentation should show.")
    words = iter(arguments[1:])
    for word in words:
        if word == "-c":
            next(words)
        elif not word.startswith("-"):
            name, extras = re.fullmatch(r"([^\[<>=]+)(?:\[(.*)\])?(?:[<>=].*)?", word).groups()
            ours = name in (project["name"], ".") or name.startswith("dist/")
            if not ours and name.lower() not in pinned:
                sys.exit(f"{name} is neither this project nor one of the constraints.")
            known = project["optional-dependencies"]
            missing = {extra.strip() for extra in (extras or "").split(",") if extra} - set(known)
            if ours and missing:
                sys.exit(f"There is no extra {', '.join(sorted(missing))}.")


if __name__ == "__main__":
    main(sys.argv[1:])
