"""What strangers wrote is read, or refused in one sentence: kept cases, and fresh ones."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import fuzzing
from support.fuzz_targets import TARGETS
from support.fuzzing import Fuzzer, Target, corpus, mutate


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_is_read_or_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    fuzzer = Fuzzer(TARGETS[name], tmp_path)
    for data in corpus(name, "found") + corpus(name, "broken"):
        fuzzer.attempt(data, keep=False)  # extreme ones, and slow to change
    fuzzer.learn(fuzzer.seeds + corpus(name))
    assert fuzzer.kept
    for _ in range(TARGETS[name].cases):
        fuzzer.attempt(fuzzer.fresh())
    assert list(fuzzer.broken.values()) == []


def _three_locks(data: bytes, own: Path) -> None:
    """A mistake behind conditions that no single change satisfies."""
    if data[:1] > b"z":
        if data[1:2] > b"z":
            if data[2:3] > b"z":
                raise KeyError(data)
            raise ValueError(2)
        raise ValueError(1)


def test_lines_that_are_reached_guide_the_fuzzer(tmp_path: Path) -> None:
    fuzzer = Fuzzer(Target(lambda _: [b"abc"], _three_locks, (ValueError,)), tmp_path)
    fuzzer.learn(fuzzer.seeds)
    for _ in range(2000):
        fuzzer.attempt(fuzzer.fresh())
    (broken,) = fuzzer.broken.values()
    assert broken.how.startswith("KeyError in test_fuzz.py")
    assert len(fuzzer.smaller(broken).data) == 3
    assert 3 <= len(fuzzer.kept) < 10  # of two thousand; lines that run by chance add a few


def test_what_is_kept_shows_everything_in_few_inputs(tmp_path: Path) -> None:
    def read(data: bytes, own: Path) -> None:
        for letter in data.decode():
            if letter == "a":
                continue
            if letter == "b":
                continue

    fuzzer = Fuzzer(Target(lambda _: [b""], read, ()), tmp_path)
    fuzzer.learn([b"", b"aaaa", b"bbbb", b"ab"])
    assert fuzzer.kept[:3] == [b"", b"aaaa", b"bbbb"]  # lines that run by chance may add the last
    fuzzer.kept = [*fuzzer.kept[:3], b"ab"]
    assert fuzzer.distilled() == [b"ab"]


@pytest.mark.parametrize(
    ("read", "how"),
    [
        (lambda data, own: data and (own.parent / "elsewhere").write_bytes(data), "OutsideError"),
        (lambda data, own: data and (own.parent / "elsewhere").mkdir(), "OutsideError"),
        (lambda data, own: data and subprocess.run([sys.executable], check=True), "OutsideError"),
        (lambda data, own: data and time.sleep(5), "SlowError"),
        (lambda data, own: data and sys.setrecursionlimit(0), "ValueError"),
    ],
)
def test_reaching_out_and_hanging_break_the_rule(
    read: object, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzzing, "LIMIT", 0.2)
    fuzzer = Fuzzer(Target(lambda _: [b""], read, (KeyError,)), tmp_path)  # type: ignore[arg-type]
    fuzzer.learn([b"x"])
    assert [broken.how.split()[0] for broken in fuzzer.broken.values()] == [how]
    assert not (tmp_path / "elsewhere").exists()


def test_its_own_folder_is_a_readers_to_write_in(tmp_path: Path) -> None:
    def read(data: bytes, own: Path) -> None:
        assert not any(own.iterdir())
        (own / "a").mkdir()
        (own / "a" / "b").write_bytes(data)

    fuzzer = Fuzzer(Target(lambda _: [b"x"], read, ()), tmp_path)
    fuzzer.learn([b"x", b"y"])
    assert not fuzzer.broken


def test_the_same_seed_makes_the_same_cases() -> None:
    made = [mutate(b'{"a": [1, 2]}', [b"x"], random.Random(7)) for _ in range(2)]
    assert made[0] == made[1]
    assert len({mutate(b'{"a": [1, 2]}', [b"x"], random.Random(n)) for n in range(50)}) > 30
