"""Where unfinished work on an index is."""

from pathlib import Path

import pytest

from solar.errors import SolarError
from solar.index.sources import working_folder


def test_work_stays_after_an_error_and_goes_when_it_is_done(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), working_folder(tmp_path / "a.json") as place:
        1 / (place / "work").write_text("")
    with working_folder(tmp_path / "a.json") as place:
        assert (place / "work").read_text() == ""
    assert not list(tmp_path.iterdir())


def test_an_error_without_work_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), working_folder(tmp_path / "a.json"):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_where_nothing_can_be_written_the_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(SolarError, match=r"a\.json cannot be written: .*file is a file"),
        working_folder(tmp_path / "file" / "a.json"),
    ):
        pass
