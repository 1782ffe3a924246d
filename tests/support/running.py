"""Running the command line as a user does."""

import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from support import fork_server


def environment(**more: str) -> dict[str, str]:
    """One core, no colours, and lines of a known width."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100", **more}


def python() -> list[str]:
    """What starts a program of Python quickly, in place of `sys.executable`; see `fork_server`."""
    if sys.platform != "linux":  # elsewhere large packages do not survive a fork, or there is none
        return [sys.executable]
    home, _ = _server()
    return [sys.executable, "-IS", f"{home.name}/python"]


def command(*arguments: object, fresh: bool = False) -> list[str]:
    """What starts `solar` with these arguments.

    Args:
        arguments: Those of the command line.
        fresh: In an interpreter that has loaded nothing yet, which takes two seconds more.
    """
    start = [sys.executable] if fresh else python()
    return [*start, "-c", "from solar.cli import main; main()", *map(str, arguments)]


def tiny_command(*arguments: object, first: str = "") -> list[str]:
    """The same where recipes may name the backbone `tiny`; `first` is code to run before."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        f"from support.tiny_backbone import register; register()\n{first}\n"
        "from solar.cli import main; main()"
    )
    return [*python(), "-c", code, *map(str, arguments)]


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


def help_of(*arguments: str) -> str:
    """What `solar … --help` prints; it does nothing else, so that no process is needed."""
    from typer.testing import CliRunner

    from solar.cli import app

    done = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "100", "NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    return done.stdout


@cache
def _server() -> tuple[tempfile.TemporaryDirectory[str], subprocess.Popen[bytes]]:
    """The server of this process, and the folder with the program that asks it; both to be kept."""
    # Sockets have short names, which pytest's folders are too long for.
    home = tempfile.TemporaryDirectory(prefix="solar-")
    address = f"{home.name}/socket"
    Path(home.name, "python").write_text(fork_server.ASK.format(socket=address))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, fork_server.__file__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env=environment(),
            start_new_session=True,
        )
    return home, process
