"""Building an index and searching it from the shell, beside another version of this package.

    python benchmarks/first_answer.py --photos FOLDER --before OTHER/src [--rounds 3] [--json FILE]

OTHER is a checkout of the version to compare with; both run with this Python, in turns. `index
build` runs once in an empty cache folder, then with what that run has kept there; `search` with
Python's bytecode kept and without (PYTHONDONTWRITEBYTECODE, and none written before). The fastest
round counts: other work on the machine only ever adds time. Seconds of the processor are those of
the command and its children, user and system.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lib.machine import machine
from lib.options import command
from lib.timed_lines import say

HERE = Path(__file__).parents[1] / "src"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--before", type=Path, required=True, help="the src of another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    query = next(path for path in sorted(options.photos.rglob("*")) if path.is_file())
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory(prefix="solar-first-") as folder:
        versions = {
            name: shutil.copytree(source, Path(folder, name), ignore=shutil.ignore_patterns("__p*"))
            for name, source in (("before", options.before), ("now", HERE))
        }
        for number in range(options.rounds):
            for name, source in versions.items():
                cache, index = Path(folder, f"{name}-cache"), Path(folder, f"{name}.solar")
                for what in ("build, first", "build") if not number else ("build",):
                    shutil.rmtree(index, ignore_errors=True)
                    building = ["index", "build", str(options.photos), "-o", str(index)]
                    add(found, what, name, run(source, cache, building))
                searching = ["search", str(index), str(query), "-k", "10"]
                for _ in range(3):  # each finds keypoints of twenty photos
                    run(source, cache, searching)
                add(found, "search", name, run(source, cache, searching))
                bare = Path(folder, f"{name}-bare")
                shutil.copytree(source, bare, ignore=shutil.ignore_patterns("__p*"))
                add(found, "search, no bytecode", name, run(bare, cache, searching, bare=True))
                shutil.rmtree(bare)
    rows: list[dict[str, Any]] = []
    for what, each in found.items():
        row: dict[str, Any] = {"what": what}
        for number, clock in enumerate(("processor", "wall")):
            before, now = (min(took[number] for took in each[name]) for name in versions)
            row[clock] = {"before": before, "now": now, "ratio": now / before}
        rows.append(row)
        say(f"{what}: {json.dumps(row)}")
    if options.json:
        report = {"machine": machine(), "command": command(), "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def add(found: dict[str, Any], what: str, name: str, took: tuple[float, float]) -> None:
    """Keep what a run took."""
    found.setdefault(what, {}).setdefault(name, []).append(took)
    say(f"{what}, {name}: {took[0]:.2f} s of the processor, {took[1]:.1f} s")


def run(
    source: Path, cache: Path, arguments: list[str], *, bare: bool = False
) -> tuple[float, float]:
    """Seconds of the processor and of the clock that a command took."""
    known = {**os.environ, "PYTHONPATH": str(source), "SOLAR_CACHE": str(cache)}
    known |= {"PYTHONDONTWRITEBYTECODE": "1"} if bare else {}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "solar", *arguments], env=known, check=True, capture_output=True
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


if __name__ == "__main__":
    main()
