import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from solar.errors import SolarError
from solar.files import LOCK, TEMPORARY, locked, make_folder, reading, replacing


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "a.txt"
    with replacing(file, durable=durable) as temporary:
        temporary.write_text("old")
        assert TEMPORARY.fullmatch(temporary.name)
    with suppress(RuntimeError), replacing(file, durable=durable) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert file.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "replaced") as temporary:
        temporary.write_text("text")
    assert (tmp_path / "replaced").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_only_what_must_last_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with replacing(tmp_path / "a", durable=False) as temporary:
        temporary.write_text("a")
    assert not synced
    with replacing(tmp_path / "b") as temporary:
        temporary.write_text("b")
    assert len(synced) == 1 + (os.name != "nt")  # the bytes, and the name in the folder


def test_a_file_that_cannot_be_written_is_one_sentence_or_as_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    blocked = tmp_path / "file" / "a.txt"
    with pytest.raises(SolarError, match=r"a\.txt .*file is a file"):
        replacing(blocked).__enter__()
    with pytest.raises(SolarError, match=r"file is a file"):
        replacing(blocked / "deeper" / "b.txt").__enter__()
    with pytest.raises(OSError, match="file"):
        replacing(blocked, complaint=None).__enter__()
    with pytest.raises(SolarError, match=r"^mine$"):
        replacing(blocked, complaint=lambda path, error: SolarError("mine")).__enter__()


def test_the_folders_above_a_file_are_made(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "a.txt"
    with replacing(file) as temporary:
        temporary.write_text("a")
    assert file.read_text() == "a"


def test_what_fails_while_a_file_is_read_is_a_sentence_about_it(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with pytest.raises(SolarError, match=r"a\.json .*No such file"), reading(file):
        file.read_text()
    for broken in (ValueError, KeyError):
        with pytest.raises(SolarError, match=r"a\.json .*JSON"):
            _read(file, broken)
    with pytest.raises(SolarError, match=r"^mine$"):
        _read(file, SolarError("mine"))
    with pytest.raises(RuntimeError):
        _read(file, RuntimeError)


def _read(file: Path, failure: type[Exception] | Exception) -> None:
    with reading(file, "is not JSON", ValueError, KeyError):
        raise failure


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "one"
    make_folder(folder, "marker")
    for harmless in (LOCK, ".solar-01234567.tmp"):
        (folder / harmless).touch()
    make_folder(folder, "marker")
    (folder / "list").touch()
    with pytest.raises(SolarError, match="other files"):
        make_folder(folder, "marker")
    (folder / "marker").touch()
    make_folder(folder, "marker")


def test_a_lock_refuses_or_waits(tmp_path: Path) -> None:
    entered = threading.Event()

    def wait() -> None:
        with locked(tmp_path / LOCK):
            entered.set()

    waiting = threading.Thread(target=wait)
    with locked(tmp_path / LOCK, "Busy."):
        with pytest.raises(SolarError, match=r"^Busy\.$"), locked(tmp_path / LOCK, "Busy."):
            pass
        waiting.start()
        assert not entered.wait(0.2)
    waiting.join(30)
    assert entered.is_set()
