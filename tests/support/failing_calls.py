"""File-system calls that fail: each in turn, as a full disk or a bad cable would have it."""

import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

NUMBERS = (errno.ENOSPC, errno.EIO, errno.EMFILE)
# What changes or makes files, and what opens them; Python's own modules are opened elsewhere.
_CALLS = (
    *((os, name) for name in ("open", "fsync", "replace", "rename", "unlink", "mkdir", "chmod")),
    *((os, name) for name in ("truncate", "ftruncate", "utime", "scandir", "stat", "lstat")),
    (builtins, "open"),
    (io, "open"),
)


class _Counter:
    def __init__(self, folder: Path, fails: int | None, number: int) -> None:
        self.folder, self.fails, self.number, self.calls = str(folder), fails, number, 0

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            first = arguments[0] if arguments else None
            ours = isinstance(first, int) or self.folder in str(first)
            if ours and call.__name__ in ("stat", "lstat", "scandir"):
                ours = False  # asked all the time, and without any harm
            if ours:
                self.calls += 1
                if self.calls - 1 == self.fails:
                    raise OSError(self.number, os.strerror(self.number), str(first))
            return call(*arguments, **named)

        return called


@contextmanager
def failing(folder: Path, fails: int | None, number: int = errno.EIO) -> Iterator[_Counter]:
    """Inside the block the so-many-th call on files of the folder fails; None lets all succeed."""
    counter = _Counter(folder, fails, number)
    patches = [
        patch.object(module, name, counter.wrap(getattr(module, name))) for module, name in _CALLS
    ]
    for one in patches:
        one.start()
    try:
        yield counter
    finally:
        for one in reversed(patches):
            one.stop()


def each_call_fails(
    folder: Path, change: Callable[[Path], Any], numbers: tuple[int, ...] = NUMBERS
) -> Iterator[tuple[str, Path, BaseException | None]]:
    """Do the same to fresh copies of a folder, one more call failing each time.

    Yields what failed, the copy, and what the change raised.
    """
    copy = folder.with_name(f"{folder.name}-copy")

    def fresh() -> Path:
        shutil.rmtree(copy, ignore_errors=True)
        if folder.exists():
            shutil.copytree(folder, copy)
        return copy

    with failing(fresh(), None) as counted:
        change(copy)
    assert counted.calls
    for number in numbers:
        for call in range(counted.calls):
            fresh()
            raised: BaseException | None = None
            with failing(copy, call, number):
                try:
                    change(copy)
                except Exception as error:
                    raised = error
            yield f"call {call} of {counted.calls}: {os.strerror(number)}", copy, raised
