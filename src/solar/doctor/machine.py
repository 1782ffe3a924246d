"""The machine: its system, processor and memory, and the graphics cards that its driver knows."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def system() -> str:
    """The operating system and the kind of machine; not its name."""
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]} {platform.machine()}"
    library = " ".join(filter(None, platform.libc_ver()))
    return " ".join(
        filter(None, [platform.system(), platform.release(), platform.machine(), library])
    )


def processor() -> str:
    """The processor as it calls itself."""
    return _told("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def cores() -> tuple[int, int]:
    """Cores that this process may use, and those of the machine."""
    every = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every
    return usable, every


def memory() -> tuple[int | None, int | None]:
    """Bytes of memory that there are for this process, and that are free; None if unknown."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None, None
    limits = [limit for limit in map(_number, _CGROUP_LIMITS) if limit is not None]
    free = _told("/proc/meminfo", "MemAvailable").removesuffix("kB")
    return min([whole, *limits]), int(free) * 1024 if free else None


def nvidia_cards() -> list[str]:
    """Graphics cards by NVIDIA's own tool, whether or not torch can use them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:
        return []
    return [line.replace(", ", ", driver ") for line in done.stdout.splitlines()]


def _told(path: str, what: str) -> str:
    """What a file of the system says of something in a line of its own; nothing elsewhere."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(what)), "")


def _number(path: str) -> int | None:
    """What a file of the system says, if it says a number."""
    try:
        return int(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
