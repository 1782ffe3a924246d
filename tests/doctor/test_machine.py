import platform
from pathlib import Path

import pytest

from solar.doctor import machine


def test_the_system_is_told_without_the_name_of_the_machine() -> None:
    assert platform.machine() in machine.system()
    assert platform.node() not in machine.system()


def test_no_more_cores_are_usable_than_there_are() -> None:
    usable, every = machine.cores()
    assert 1 <= usable <= every


def test_there_is_memory() -> None:
    whole, free = machine.memory()
    assert whole is None or whole > 2**20
    assert free is None or free > 0


def test_a_limit_on_a_container_is_what_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("max", "1048576\n"), ("none", "max\n")):
        (tmp_path / name).write_text(text)
    limits = [str(tmp_path / name) for name in ("max", "none", "nowhere")]
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", limits)
    if machine.memory()[0] is not None:
        assert machine.memory()[0] == 2**20


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
