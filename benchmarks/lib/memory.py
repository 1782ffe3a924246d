"""How much memory a process holds that no file backs: mapped files do not count."""

import threading
from collections.abc import Callable
from pathlib import Path


def own_memory(process: int | str = "self") -> int:
    """Bytes of a process's own memory; 0 for another process once it has ended."""
    return _counted(process, "RssAnon")


def most_memory(process: int | str = "self") -> int:
    """The most bytes that a process held at any time, mapped files included."""
    return _counted(process, "VmHWM")


def _counted(process: int | str, what: str) -> int:
    if not Path("/proc/self/status").exists():
        raise SystemExit(f"this benchmark needs Linux, which counts {what}")
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


class PeakMemory:
    """Looks at the memory every few milliseconds; `bytes` is the most seen inside the block.

    Args:
        look: What to watch; default: this process.
        every: Seconds between looks.
    """

    def __init__(self, look: Callable[[], int] = own_memory, every: float = 0.005) -> None:
        self._look, self._every = look, every
        self._done, self._thread = threading.Event(), threading.Thread(target=self._watch)
        self.bytes = 0

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._every):
            self.bytes = max(self.bytes, self._look())
