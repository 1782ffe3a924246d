from pathlib import Path

import pytest

from solar.cli.skip_report import default_place, how_to_look
from solar.storage.catalogue import FILE


def test_a_report_of_an_index_lies_where_its_server_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my photos.solar").mkdir()
    (tmp_path / "my photos.solar" / FILE).touch()
    place = default_place("my photos.solar", "groups")
    assert place == tmp_path / "my photos.groups.json"
    shown = how_to_look("my photos.solar", "groups", place)
    assert shown == "`solar serve 'my photos.solar'` shows them in the browser."
    shown = how_to_look("my photos.solar", "groups", Path("g.json"))
    assert shown == "`solar serve 'my photos.solar' --groups g.json` shows them in the browser."
    assert default_place("photos", "groups") == Path("groups.json")
    assert how_to_look("photos", "groups", Path("groups.json")) is None
    shown = how_to_look("milvus://host:1/photos", "groups", Path("groups.json"))
    assert shown is not None
    assert "solar serve milvus://host:1/photos --groups groups.json" in shown
