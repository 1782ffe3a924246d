"""What takes long is kept, found again, and never mistaken for something else."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from solar.errors import SolarError
from solar.records import Records

WRITER = """
import sys
from pathlib import Path
from solar.records import Records
records = Records(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 1_000_000, 2):
    records.put([(number, b"%d" % number * 999)])
    print(number, flush=True)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "work" / "some-1234"


def test_values_are_found_again(file: Path) -> None:
    records = Records(file)
    assert records.get(b"a") is None
    assert list(records.every()) == []
    assert records.size() == (0, 0)
    assert not file.parent.exists()  # reading makes nothing
    records.put([(b"a", b"1"), (b"b", b""), (7, b"222")])
    records.put([(b"a", b"one")])
    again = Records(file)
    assert (again.get(b"a"), again.get(b"b"), again.get(7)) == (b"one", b"", b"222")
    assert dict(again.every()) == {b"a": b"one", b"b": b"", 7: b"222"}
    assert again.size() == (3, 6)
    again.keep([b"b", b"c"])
    assert dict(records.every()) == {b"b": b""}


def test_many_values_are_read_in_pieces(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solar.records._SOME", 3)
    records = Records(file)
    records.put((number, b"%d" % number) for number in range(10))
    assert list(records.every()) == [(number, b"%d" % number) for number in range(10)]


def test_blocks_that_are_there_are_not_computed_again(file: Path) -> None:
    computed: list[int] = []

    def more(number: int) -> Iterator[tuple[bytes, bool]]:
        for one in range(number, 6):
            computed.append(one)
            yield b"%d" % one, one != 4  # which may be better another time

    expected = [b"%d" % number for number in range(6)]
    stopped = Records(file).blocks(6, more)
    assert [next(stopped) for _ in range(3)] == expected[:3]
    assert list(Records(file).blocks(6, more)) == expected
    assert computed == [0, 1, 2, 3, 4, 5]
    assert list(Records(file).blocks(6, more)) == expected
    assert computed == [0, 1, 2, 3, 4, 5, 4]
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE kept SET value = x'33' WHERE key = 1")
    assert list(Records(file).blocks(6, more)) == expected
    assert computed[7:] == [1, 4]


def test_a_value_that_was_changed_does_not_count(file: Path) -> None:
    Records(file).put([(b"a", b"right " * 9999), (b"b", b"whole")])
    content = bytearray(file.read_bytes())
    content[content.rindex(b"right ")] ^= 1
    file.write_bytes(content)
    assert Records(file).get(b"a") is None
    assert dict(Records(file).every()) == {b"b": b"whole"}
    Records(file).put([(b"a", b"again")])
    assert Records(file).get(b"a") == b"again"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"no database at all " * 999,
        lambda content: content[: len(content) // 2],
        lambda content: content[:4096] + bytes(len(content) - 4096),
    ],
)
def test_a_damaged_file_is_named(file: Path, damage: object) -> None:
    Records(file).put((number, b"%d" % number * 999) for number in range(99))
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    for attempt in (lambda: list(Records(file).every()), lambda: Records(file).put([(1, b"")])):
        with pytest.raises(SolarError, match=f"{file} is damaged") as told:
            attempt()
        assert str(told.value).count(". ") == 0
    file.unlink()
    Records(file).put([(1, b"new")])
    assert Records(file).get(1) == b"new"


def test_nothing_but_values_may_be_in_a_file(file: Path) -> None:
    """It may come with an index from somebody else."""
    Records(file).put([(1, b"")])
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TRIGGER t AFTER INSERT ON kept BEGIN DELETE FROM kept WHERE key = 1; END"
        )
    with pytest.raises(SolarError, match=f"{file} is damaged"):
        Records(file).put([(2, b"")])
    link = file.with_name("link")
    link.symlink_to(file)
    with pytest.raises(SolarError, match=f"{link} is a link"):
        Records(link).get(1)


def test_a_file_that_is_deleted_meanwhile_begins_anew(file: Path) -> None:
    records = Records(file)
    records.put([(1, b"old")])
    shutil.rmtree(file.parent)
    assert records.get(1) is None
    records.put([(2, b"new")])
    assert dict(Records(file).every()) == {2: b"new"}


def test_a_folder_that_is_only_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Records(file).put([(1, b"one")])
    monkeypatch.setattr(os, "access", lambda *_: False)
    records = Records(file)
    assert records.get(1) == b"one"
    with pytest.raises(SolarError, match=f"{file} cannot be used"):
        records.put([(2, b"two")])
    assert dict(records.every()) == {1: b"one"}


def test_a_full_disk_is_said_and_loses_nothing(file: Path) -> None:
    Records(file).put([(1, b"one")])
    code = """
import resource, sys
from pathlib import Path
from solar.errors import SolarError
from solar.records import Records
resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))
try:
    Records(Path(sys.argv[1])).put([(2, b"two" * 99999)])
except SolarError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith(f"{file} cannot be used")
    assert dict(Records(file).every()) == {1: b"one"}
    Records(file).put([(2, b"two")])
    assert dict(Records(file).every()) == {1: b"one", 2: b"two"}


def test_kills_lose_nothing_and_two_may_write(file: Path) -> None:
    chance = random.Random(0)
    for _ in range(4):
        both = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(file), str(first)], stdout=subprocess.PIPE
            )
            for first in (0, 1)
        ]
        told: set[int] = set()
        for writer in both:
            assert writer.stdout is not None
            for _ in range(chance.randrange(1, 60)):
                told.add(int(writer.stdout.readline()))
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split(b"\n")[:-1]  # the last line may be cut
            told |= {int(line) for line in rest}
            writer.wait()
        kept = dict(Records(file).every())
        assert told <= kept.keys()
        assert all(value == b"%d" % number * 999 for number, value in kept.items())
