import io
import json
import warnings
from pathlib import Path

import pytest

from solar.cli import printing
from solar.cli.printing import default_place, how_to_look, print_summary, write_report
from solar.storage.catalogue import FILE

WILD = "a[/b]\x1b[31m:smile:\n\udcff"
SHOWN = r"a[/b]\x1b[31m:smile:\n\xff"


def test_a_name_is_printed_on_one_line_whatever_it_holds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printing.say(f"3 × 4 → {WILD}", "red")
    with printing.warnings_as_sentences():
        warnings.warn(f"{WILD} is odd.", stacklevel=1)
    assert capsys.readouterr().err == f"3 × 4 → {SHOWN}\n{SHOWN} is odd.\n"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_gives_every_name_back(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["Größe 👍", WILD]
    for value in (names[:1], names):
        written = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr("sys.stdout", written)
        printing.print_json(value)
        written.seek(0)
        assert json.loads(written.read()) == value


def test_json_stays_readable_where_it_can(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_json(["Größe"])
    assert "Größe" in capsys.readouterr().out


def test_a_report_is_json_with_every_name(tmp_path: Path) -> None:
    file = tmp_path / "new" / "report.json"
    write_report(
        file, 1, {"b\udcff.jpg": "/my photos/b\udcff.jpg is empty.", "ü.jpg": "RAW"}, removed=3
    )
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "indexed": 1,
        "skipped": [
            {"path": "b\udcff.jpg", "reason": "it is empty."},
            {"path": "ü.jpg", "reason": "RAW"},
        ],
        "removed": 3,
    }
    write_report(file, 1, {}, "described", photos=["ü.jpg"])
    assert json.loads(file.read_text(encoding="utf-8"))["described"] == 1
    assert "ü.jpg" in file.read_text(encoding="utf-8")


def test_a_summary_names_what_was_skipped_with_equal_reasons_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skipped = {f"{n}.cr2": "RAW files are not read." for n in range(1200)}
    skipped |= {"a[/b]\n.jpg": "truncated JPEG", "b.jpg": "/photos/b.jpg is damaged."}
    skipped |= {f"a//b/{name}": f"/my photos/b/{name} is empty." for name in ("c.jpg", "d.jpg")}
    print_summary("Indexed", 3260, skipped, where="[x].solar")
    assert capsys.readouterr().err.splitlines() == [
        "Indexed 3,260 photos, skipped 1,204 → [x].solar",
        "  1,200 files: RAW files are not read.",
        r"  a[/b]\n.jpg: truncated JPEG",
        "  b.jpg: it is damaged.",
        "  2 files: it is empty.",
    ]


def test_a_long_summary_says_where_the_rest_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary("Indexed", 1, {f"{n}.jpg": f"reason {n}" for n in range(50)})
    assert capsys.readouterr().err.splitlines() == [
        "Indexed 1 photo, skipped 50",
        "  0.jpg: reason 0",
        *(f"  {n}.jpg: reason {n}" for n in range(1, 10)),
        "  … and 40 more: --report FILE lists them all.",
    ]
    print_summary("Described", 2, {})
    assert capsys.readouterr().err == "Described 2 photos\n"


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
