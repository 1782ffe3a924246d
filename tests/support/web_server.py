"""The web app as a process of its own."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

from support.running import environment, tiny_command


@contextlib.contextmanager
def served(
    *arguments: object, fresh: bool = False
) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A running `solar serve`, its host and its port; if `fresh`, its process is the server's."""
    with running("serve", "--port", 0, *arguments, fresh=fresh) as found:
        yield found


@contextlib.contextmanager
def running(
    *arguments: object, fresh: bool = False
) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A running `solar …` that serves, its host and its port."""
    process = subprocess.Popen(
        tiny_command(*arguments, fresh=fresh),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
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
