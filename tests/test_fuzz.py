"""Untrusted input is read, or refused in one sentence: kept cases, and damaged ones."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, find, given, settings
from support import fuzzing
from support.fuzz_targets import TARGETS
from support.fuzzing import HangsError, OutsideError, Target, attempt, damaged, kept


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A reader's own folder, and the one in which its inputs were prepared."""
    home = tmp_path / "home"
    home.mkdir()
    return tmp_path / "own", home


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_is_read_or_refused_in_a_sentence(name: str, folders: tuple[Path, Path]) -> None:
    target, (own, home) = TARGETS[name], folders
    seeds = target.seeds(home)
    own.mkdir()
    with suppress(*target.errors):  # what is imported here may write byte code
        target.read(seeds[0], own)
    inputs = [*seeds, *kept(name)]
    for data in inputs:
        attempt(target, data, own, home)

    @settings(max_examples=target.cases, deadline=None, suppress_health_check=list(HealthCheck))
    @given(damaged([data for data in inputs if len(data) <= fuzzing.LARGEST]))
    def read_or_refused(data: bytes) -> None:
        attempt(target, data, own, home)

    read_or_refused()


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda _, own: (own.parent / "elsewhere").write_bytes(b"x"), OutsideError),
        (lambda _, own: (own.parent / "elsewhere").mkdir(), OutsideError),
        (lambda *_: subprocess.run([sys.executable], check=True), OutsideError),
        (lambda *_: time.sleep(30), HangsError),
        (lambda *_: sys.setrecursionlimit(0), ValueError),
    ],
)
def test_reaching_out_and_hanging_break_the_rule(
    read: object,
    error: type[BaseException],
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fuzzing, "HANGS", 1)
    target = Target(lambda _: [b""], read, (KeyError,))  # type: ignore[arg-type]
    with pytest.raises(error):
        attempt(target, b"x", *folders)
    assert not (folders[0].parent / "elsewhere").exists()


def test_a_reader_may_write_in_its_own_folder_which_is_empty(folders: tuple[Path, Path]) -> None:
    def read(data: bytes, own: Path) -> None:
        assert not any(own.iterdir())
        (own / "a").mkdir()
        (own / "a" / "b").write_bytes(data)

    for data in (b"x", b"y"):
        attempt(Target(lambda _: [b"x"], read, ()), data, *folders)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda made: made == b"{}",  # a node of JSON is gone
        lambda made: b"NaN" in made,
        lambda made: b"18446744073709551615" in made or b"2147483648" in made,
        lambda made: 0 < len(made) < 5,
    ],
)
def test_damage_changes_nodes_words_and_numbers(wanted: Callable[[bytes], bool]) -> None:
    assert wanted(find(damaged([b'{"a": 1}']), wanted, settings=settings(max_examples=20_000)))
