import csv
import json
from pathlib import Path

import pytest

from solar.errors import SolarError
from solar.images import Roots
from solar.near_duplicates.report import (
    DuplicateGroup,
    DuplicatePhoto,
    DuplicateReport,
    Relation,
)

EYE = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
GROUPS = [
    DuplicateGroup(
        "copy",
        (
            DuplicatePhoto(
                *("a/塔, 1.jpg", 640, 480, 81234, "2020-05-01T10:11:12", "2020-05-02T10:11:12"),
                why="best",
            ),
            DuplicatePhoto("b.jpg", 320, 240, 20000, None, None, False, "resized"),
        ),
        (Relation(0, 1, "copy", "resized", 0.97, EYE, (1.0, 0.98), 0.021, None, "because"),),
    ),
    DuplicateGroup(
        "place",
        (DuplicatePhoto("c.jpg", 1, 1, 1), DuplicatePhoto("d.jpg", 1, 1, 1)),
        (Relation(0, 1, "place", "the same place", None, None, (0.5, 0.5), None, 20),),
    ),
]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    DuplicateReport(20, GROUPS, Roots.at(tmp_path), ("copy", "place")).write(
        tmp_path / "report.json"
    )
    return tmp_path / "report.json"


def test_a_report_reads_as_it_was_written(report: Path, tmp_path: Path) -> None:
    read = DuplicateReport.read(report)
    assert list(read) == list(read) == GROUPS
    assert (read.photos, read.kinds, read.roots) == (20, ("copy", "place"), Roots.at(tmp_path))


def test_a_report_is_plain_json_with_a_group_per_line(report: Path) -> None:
    whole = json.loads(report.read_text(encoding="utf-8"))
    assert [group["kind"] for group in whole["groups"]] == ["copy", "place"]
    assert len(report.read_text(encoding="utf-8").splitlines()) == 4  # a group a line


def test_groups_are_read_one_by_one(report: Path) -> None:
    """A damaged line further down does not keep anybody from the first group."""
    lines = report.read_text(encoding="utf-8").splitlines()
    lines[2] = "{"
    report.write_text("\n".join(lines), encoding="utf-8")
    reading = iter(DuplicateReport.read(report))
    assert next(reading) == GROUPS[0]
    with pytest.raises(SolarError, match="report"):
        next(reading)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"b": 1', '"b": 2'),
        lambda text: text.replace("solar-duplicates-1", "solar-duplicates-9"),
        lambda text: text.replace('"copy"', '"twin"'),
        lambda text: text.replace('"width": 640', '"width": "640"'),
        lambda text: text.replace("[1.0, 0.0, 0.0]", "[1.0, 0.0]"),
        lambda text: text.replace('"name": "b.jpg"', '"name": 7'),
        lambda text: text.replace('"photos": 20', '"photos": Infinity'),
        lambda text: "[]",
        lambda text: "",
    ],
)
def test_what_is_no_report_is_refused_in_a_sentence(report: Path, change: object) -> None:
    text = report.read_text(encoding="utf-8")
    assert callable(change)
    report.write_text(change(text), encoding="utf-8")
    with pytest.raises(SolarError, match=r"report\.json"):
        list(DuplicateReport.read(report))


def test_an_error_leaves_the_old_report(report: Path) -> None:
    before = report.read_bytes()

    def torn() -> object:
        yield GROUPS[0]
        raise SolarError("stopped")

    with pytest.raises(SolarError, match="stopped"):
        DuplicateReport(1, torn()).write(report)  # type: ignore[arg-type]
    assert report.read_bytes() == before


def test_the_table_has_a_row_a_photo(report: Path, tmp_path: Path) -> None:
    DuplicateReport.read(report).write_csv(tmp_path / "report.csv")
    with (tmp_path / "report.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["group", "kind", "name", "keep", "how", "why"],
        ["1", "copy", "a/塔, 1.jpg", "yes", "resized", "best"],
        ["1", "copy", "b.jpg", "no", "resized", "resized"],
        ["2", "place", "c.jpg", "yes", "the same place", ""],
        ["2", "place", "d.jpg", "yes", "the same place", ""],
    ]
