"""Running the command line as a user does."""

import os
import subprocess
import sys


def environment() -> dict[str, str]:
    """One core, no colours, and lines of a known width."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100"}


def solar(*arguments: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, and insist on its exit code."""
    command = [sys.executable, "-c", "from solar.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120)
    assert done.returncode == expect, done.stdout + done.stderr
    return done
