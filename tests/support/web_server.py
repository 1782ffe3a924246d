"""The web app as a process of its own."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit


@contextlib.contextmanager
def served(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A running `solar serve`, its host and its port."""
    with running("serve", "--port", 0, *arguments) as found:
        yield found


@contextlib.contextmanager
def running(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A running `solar …` that serves, its host and its port."""
    command = [sys.executable, "-c", "from solar.cli import main; main()"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        found = None
        for line in process.stdout:
            if found := re.search(r"http://\S+/", line):
                break
        assert found, process.communicate()[1]
        address = urlsplit(found[0])
        yield process, str(address.hostname), int(address.port or 0)
    finally:
        process.kill()
        process.wait()
        process.communicate()
