"""Running the command line as a user does."""

import os
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from support import fork_server


def environment(**more: str) -> dict[str, str]:
    """One core, no colours, and lines of a known width."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100", **more}


def python(commands: bool = False) -> list[str]:
    """What starts a program of Python quickly, in place of `sys.executable`; see `fork_server`.

    Args:
        commands: For programs that import `solar.cli` anyway.
    """
    if sys.platform != "linux":  # elsewhere large packages do not survive a fork, or there is none
        return [sys.executable]
    home, _ = _server()
    return [sys.executable, "-IS", f"{home.name}/{'commands' if commands else 'python'}"]


def command(*arguments: object, fresh: bool = False) -> list[str]:
    """What starts `solar` with these arguments.

    Args:
        arguments: Those of the command line.
        fresh: In an interpreter that has loaded nothing yet, which takes two seconds more.
    """
    start = [sys.executable] if fresh else python(commands=True)
    return [*start, "-c", "from solar.cli import main; main()", *map(str, arguments)]


def tiny_command(*arguments: object, first: str = "", fresh: bool = False) -> list[str]:
    """The same where recipes may name the backbone `tiny`; `first` is code to run before."""
    start = [sys.executable] if fresh else python(commands=True)
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        f"from support.tiny_backbone import register; register()\n{first}\n"
        "from solar.cli import main; main()"
    )
    return [*start, "-c", code, *map(str, arguments)]


def solar(
    *arguments: object, expect: int = 0, fresh: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, and insist on its exit code."""
    done = subprocess.run(
        command(*arguments, fresh=fresh),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done


HIT_FIELDS = {
    *("path", "absolute", "score", "probability", "taken", "position", "camera"),
    *("inliers", "threshold", "same_scene", "tags", "fields"),
}
"""What a hit has where a command prints it as JSON."""


def refused(*arguments: object) -> str:
    """The one sentence on standard error with which the command refuses, and exit code 2.

    It runs in this process: to refuse takes milliseconds, to start a process longer. What libraries
    write and warn of would be lines beside the sentence, as in a terminal.
    """
    from solar.cli import main

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: sys.stderr.write(f"{message}\n")
        for category in (DeprecationWarning, PendingDeprecationWarning):  # which no user sees
            warnings.simplefilter("ignore", category)
        for name, value in environment().items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["solar", *map(str, arguments)])
        with _written("stdout") as out, _written("stderr") as err, pytest.raises(SystemExit) as end:
            main()
    told = err.getvalue()
    assert (end.value.code, out.getvalue()) == (2, ""), told
    assert told.startswith("solar: ")
    assert told.count("\n") == 1, told
    return told


@contextmanager
def _written(stream: str) -> Iterator[StringIO]:
    """What Python and C write to `stdout` or `stderr`, once the block is left."""
    text, plain = StringIO(), getattr(sys, stream)
    number = {"stdout": 1, "stderr": 2}[stream]
    kept = os.dup(number)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="backslashreplace") as file:
        os.dup2(file.fileno(), number)
        setattr(sys, stream, file)
        try:
            yield text
        finally:
            setattr(sys, stream, plain)
            os.dup2(kept, number)
            os.close(kept)
            file.seek(0)
            text.write(file.read())


def help_of(*arguments: str) -> str:
    """What `solar … --help` prints; it does nothing else, so that no process is needed."""
    from typer.testing import CliRunner

    from solar.cli import app

    done = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "100", "NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    return done.stdout


@cache
def _server() -> tuple[tempfile.TemporaryDirectory[str], subprocess.Popen[bytes]]:
    """The server of this process, and the folder with the programs that ask it; both to be kept."""
    # Sockets have short names, which pytest's folders are too long for.
    home = tempfile.TemporaryDirectory(prefix="solar-")
    with ExitStack() as listeners:
        numbers = []
        for name in ("python", "commands"):
            address = f"{home.name}/{name}.socket"
            Path(home.name, name).write_text(fork_server.ASK.format(socket=address))
            listener = listeners.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen(64)
            numbers.append(listener.fileno())
        process = subprocess.Popen(
            [sys.executable, fork_server.__file__, *map(str, numbers)],
            stdin=subprocess.PIPE,
            pass_fds=numbers,
            env=environment(),
            start_new_session=True,
        )
    return home, process
