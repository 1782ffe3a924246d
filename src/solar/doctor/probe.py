"""Tries things out in a process of its own, because a broken package can take its process along.

An import may raise anything, print, hang, or end with an illegal instruction. Whatever it does, it
costs one answer.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from solar.errors import SolarError

SECONDS = 180.0
_LONGEST = 300  # letters of an error


@dataclass(frozen=True)
class Attempt:
    """What came of a try: whether nothing was raised, why it does not work, what it returned."""

    works: bool
    text: str = ""
    value: Any = None


def attempt(tasks: Sequence[str], seconds: float = SECONDS) -> dict[str, Attempt]:
    """Do tasks one after the other in another process, which may take so many seconds.

    A task is a module to import, or `module:function` to call, whose result is sent as JSON. Where
    one ends or hangs the process, the next ones get a new one.
    """
    answers: dict[str, Attempt] = {}
    waiting = list(tasks)
    while waiting:
        done, end = _run(waiting, seconds)
        answers.update(zip(waiting, done, strict=False))
        waiting = waiting[len(done) :]
        if waiting:
            answers[waiting.pop(0)] = Attempt(False, end)
    return answers


def work(answers: Path, tasks: Sequence[str]) -> None:
    """What the other process does: append an answer, a line each."""
    with answers.open("a", encoding="utf-8") as file:
        for task in tasks:
            works, text, value = True, "", None
            try:
                module, _, function = task.partition(":")
                found = import_module(module)
                value = getattr(found, function)() if function else None
            except BaseException as error:  # SystemExit is no better than others here
                works, text = False, sentence(error)
            file.write(json.dumps([works, text, value]) + "\n")
            file.flush()


def sentence(error: BaseException) -> str:
    """An error in one line."""
    said = " ".join(str(error).split())
    said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
    if isinstance(error, SolarError):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _run(tasks: Sequence[str], seconds: float) -> tuple[list[Attempt], str]:
    """The answers that a process gave, and how it ended."""
    code = "import sys, pathlib; from solar.doctor.probe import work; "
    code += "work(pathlib.Path(sys.argv[1]), sys.argv[2:])"
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers"
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", code, str(answers), *tasks],
                # The same packages that this process would see, wherever they are.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
            )
            end = _ending(done.returncode)
        except subprocess.TimeoutExpired:
            end = f"it did not finish within {seconds:.0f} s"
        except OSError as error:
            end = f"no process could be started: {error.strerror or error}"
        return _read(answers), end


def _read(answers: Path) -> list[Attempt]:
    if not answers.is_file():
        return []
    # A process that was killed may have left half a line.
    whole = answers.read_text(encoding="utf-8").rpartition("\n")[0]
    return [Attempt(*json.loads(line)) for line in whole.splitlines()]


def _ending(code: int) -> str:
    if code >= 0:
        return f"it ended the process with exit code {code}"
    try:
        return f"it ended the process with {signal.Signals(-code).name}"
    except ValueError:
        return f"it ended the process with signal {-code}"
