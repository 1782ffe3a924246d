import os
import platform
import re
import sys
from pathlib import Path

import pytest

from solar.doctor import machine


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


def test_the_cache_is_measured(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir(parents=True)
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "demo" / "b").write_bytes(b"45")
    assert re.search(
        r": 2 files, 0 MiB, [\d.]+ [GM]iB free, writable$", machine.cache_state(tmp_path)
    )


def test_a_cache_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert ": 0 files" in machine.cache_state(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert "Read-only file system" in machine.cache_state(tmp_path)


# What a report must not tell.


@pytest.fixture
def ada(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "ada"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    monkeypatch.setattr(platform, "node", lambda: "tower.example")
    return home


def test_the_home_folder_becomes_a_tilde(ada: Path) -> None:
    assert machine.shareable(f"{ada}/.cache/solar is full") == "~/.cache/solar is full"


def test_a_folder_that_only_begins_like_it_stays(ada: Path) -> None:
    assert machine.shareable(f"{ada}-2/x").endswith("ada-2/x")


def test_a_home_behind_a_link_is_found(
    ada: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(ada)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    assert machine.shareable(f"{ada}/x {tmp_path / 'link'}/y") == "~/x ~/y"


def test_the_name_is_taken_out_of_other_paths_but_not_out_of_words(ada: Path) -> None:
    assert machine.shareable("/data/ada/photos by ada and adam, /data/adam") == (
        "/data/USER/photos by ada and adam, /data/adam"
    )


def test_the_machine_is_not_named(ada: Path) -> None:
    assert machine.shareable("tower.example refused, not tower.examples") == (
        "HOST refused, not tower.examples"
    )


def test_a_home_that_is_the_root_hides_nothing(ada: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert machine.shareable("/usr/lib") == "/usr/lib"
