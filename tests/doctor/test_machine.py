import os
import platform
import re
import sys
from pathlib import Path

import pytest

from solar.doctor import machine


def test_the_system_is_told_without_the_name_of_the_machine() -> None:
    assert platform.machine() in machine.system()
    assert platform.node() not in machine.system()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tie no process to cores")
def test_cores_that_this_process_may_not_use_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5})
    assert machine.cores() == (3, 8)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> int:
    """A machine with 4 MB of memory and no container around it; its bytes."""
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", ())
    return 4_096_000


def test_memory_is_what_the_system_counts(pages: int) -> None:
    assert machine.memory()[0] == pages


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux tells what is free")
def test_free_memory_is_a_part_of_the_machine_s() -> None:
    [whole] = re.findall(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
    free = machine.memory()[1]
    assert free is not None
    assert 2**20 < free <= int(whole) * 1024


def test_a_system_that_does_not_tell_its_memory_is_no_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert machine.memory() == (None, None)


def test_a_limit_on_a_container_is_what_counts(
    tmp_path: Path, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("max", "1048576\n"), ("none", "max\n")):
        (tmp_path / name).write_text(text)
    limits = [str(tmp_path / name) for name in ("max", "none", "nowhere")]
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", limits)
    assert machine.memory()[0] == 2**20 < pages


@pytest.mark.parametrize(
    ("script", "cards"),
    [
        ("echo 'Toy 9000, 1.2'; echo 'Toy 3, 1.2'", ["Toy 9000, driver 1.2", "Toy 3, driver 1.2"]),
        ("echo 'No devices were found'; exit 6", []),
    ],
)
def test_cards_are_those_that_the_driver_lists(
    script: str, cards: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert machine.nvidia_cards() == cards
