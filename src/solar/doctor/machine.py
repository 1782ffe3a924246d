"""Facts about this machine: processor, memory, GPUs and cache, without personal names."""

import getpass
import os
import platform
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def processor() -> str:
    """The processor's name."""
    return _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def cores() -> tuple[int, int]:
    """Cores available to this process, and of the machine."""
    every = os.cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every, every


def memory() -> tuple[int | None, int | None]:
    """Bytes of memory available to this process, and free; None if unknown."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None, None
    for file in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # no container, or no limit
            limits.append(int(Path(file).read_text(encoding="utf-8")))
    free = _line("/proc/meminfo", "MemAvailable").removesuffix("kB")
    return min(limits), int(free) * 1024 if free else None


def nvidia_cards() -> list[str]:
    """The GPUs that nvidia-smi lists, whether or not torch can use them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.replace(", ", ", driver ") for line in done.stdout.splitlines()]


def cache_state(path: Path) -> str:
    """The cache folder, its size, free space, and whether it is writable."""
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    nearest = next((one for one in (path, *path.parents) if one.is_dir()), Path("/"))
    try:
        tempfile.TemporaryFile(dir=nearest).close()
        state = "writable"
    except OSError as error:
        state = f"cannot be written ({error.strerror or error})"
    free = size_text(shutil.disk_usage(nearest).free)
    holds = f"{len(sizes)} files, {size_text(sum(sizes))}, {free} free"
    return f"{shareable(str(path))}: {holds}, {state}"


def size_text(count: int) -> str:
    """A number of bytes, in MiB or GiB."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def shareable(text: str) -> str:
    """Remove the home folder, the user's name in other paths, and the machine's name."""
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE") or "~"
    for written in sorted({home, os.path.realpath(home)} - {"/", "~"}, key=len, reverse=True):
        text = re.sub(rf"{re.escape(written)}(?![\w.-])", "~", text)
    with suppress(ImportError, KeyError, OSError):  # a container's user may have no name
        text = re.sub(rf"(?<=[/\\]){re.escape(getpass.getuser())}(?![\w.-])", "USER", text)
    host = platform.node()
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text) if host else text


def _line(path: str, what: str) -> str:
    """The value in the line of a system file that starts with `what`, or ""."""
    with suppress(OSError):
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            if line.startswith(what):
                return line.partition(":")[2].strip()
    return ""
