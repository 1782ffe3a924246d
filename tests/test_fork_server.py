"""Programs that tests start quickly must do what they do when Python starts them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.running import python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no forks elsewhere")

ENDS = {
    "well": "print('é'); import sys; print(sys.argv)",
    "with a code": "raise SystemExit(7)",
    "with a sentence": "raise SystemExit('a sentence')",
    "by a signal": "import os; os.kill(os.getpid(), 11)",
    "after its threads": "import threading; threading.Timer(0.1, print, ['late']).start()",
    "after what it has registered": "import atexit; atexit.register(print, 'last')",
    "with its input": "print(input())",
    "where it was started": "import os; print(os.getcwd(), os.environ['GIVEN'])",
    "without being a terminal": "import sys; print(sys.stdout.isatty(), sys.stdout.seekable())",
    "with nothing of solar": "import sys; print([m for m in sys.modules if m[:5] == 'solar'])",
    "as the main module": "import __main__; print(__name__, __main__.__dict__ is globals())",
}


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_a_fork_ends_as_a_process_does(code: str, tmp_path: Path) -> None:
    ends = [
        subprocess.run(
            [*start, "-c", code, "a", "-b"],
            input=b"given\n",
            cwd=tmp_path,
            env={**os.environ, "GIVEN": "here", "PYTHONPATH": ""},
            capture_output=True,
        )
        for start in ([sys.executable], python())
    ]
    found, expected = ((end.returncode, end.stdout, end.stderr) for end in ends)
    assert found == expected


def test_a_fork_gets_the_signals_of_who_started_it_and_dies_with_it() -> None:
    # Python notices a signal between two lines, but not just before it begins to wait for input.
    wait = "while True: time.sleep(0.01)"
    code = (
        f"import time\ntry:\n print('begun', flush=True)\n {wait}\n"
        f"except KeyboardInterrupt:\n print('interrupted', flush=True)\n {wait}"
    )
    process = subprocess.Popen([*python(), "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    process.kill()
    assert process.stdout.read() == ""  # nobody holds the other end any more
    assert process.wait() == -signal.SIGKILL
