import json
from pathlib import Path

import pytest

from solar.cli.skip_report import print_summary, write_report


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
    write_report(file, 1, {}, "Described", photos=["ü.jpg"])
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
    print_summary("Indexed", 1, {f"{n}.jpg": f"reason {n}" for n in range(50)}, most=2)
    assert capsys.readouterr().err.splitlines() == [
        "Indexed 1 photo, skipped 50",
        "  0.jpg: reason 0",
        "  1.jpg: reason 1",
        "  … and 48 more: --report FILE lists them all.",
    ]
    print_summary("Described", 2, {})
    assert capsys.readouterr().err == "Described 2 photos\n"
