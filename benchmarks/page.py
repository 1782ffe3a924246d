"""How long a person waits on the page for a search, beside another version of this package.

    python benchmarks/page.py --photos FOLDER --before OTHER/src [--queries 9] [--json FILE]

Both versions build an index of the photos, with a cache folder of their own, and serve it, one
after the other; a Chromium opens the address of a search with a photo of the index, a new tab each
time. Seconds of the clock from there until results are shown, and until the server has sent the
last, verified order: of the first search after the server's start, which finds keypoints, and the
median of the others.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lib.machine import machine
from lib.options import command
from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parents[1] / "src"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--before", type=Path, required=True, help="the src of another checkout")
    parser.add_argument("--queries", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="solar-page-") as folder, sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for version, source in (("before", options.before), ("now", HERE)):
            index = Path(folder, f"{version}.solar")
            known = {"PYTHONPATH": str(source), "SOLAR_CACHE": str(Path(folder, version))}
            solar = [sys.executable, "-m", "solar"]
            building = [*solar, "index", "build", str(options.photos), "-o", str(index)]
            subprocess.run(building, env=os.environ | known, check=True, capture_output=True)
            with served([*solar, "serve", str(index), "--port", "0"], os.environ | known) as site:
                waits = [waited(browser, f"{site}#/?q={n}") for n in range(options.queries)]
            for what, at in (("results", 0), ("verified", 1)):
                first, *later = (wait[at] for wait in waits)
                row = {"version": version, "until": what, "first search": first}
                rows.append(row | {"later": statistics.median(later)})
                print(rows[-1], flush=True)
        browser.close()
    if options.json:
        report: dict[str, Any] = {"machine": machine(), "command": command(), "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


@contextmanager
def served(serving: list[str], known: dict[str, str]) -> Iterator[str]:
    """The address of a server, which stops in the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(serving, env=known, stdout=pipe, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        told = (re.search(rb"http://\S+/", line) for line in process.stdout)
        yield next(found[0].decode() for found in told if found)
        process.terminate()


def waited(browser: Browser, address: str) -> tuple[float, float]:
    """Seconds until results are shown, and until the last of them arrived."""
    page = browser.new_page()
    try:
        start = time.perf_counter()
        with page.expect_event(
            "requestfinished", lambda request: request.url.endswith("/search"), timeout=120_000
        ):
            page.goto(address)
            page.locator(".results .card").first.wait_for(timeout=120_000)
            shown = time.perf_counter() - start
        return shown, time.perf_counter() - start
    finally:
        page.close()


if __name__ == "__main__":
    main()
