import csv
import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.edited_photos import edited_index, edited_photos
from support.running import command, environment, solar

from solar.cli import app
from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.near_duplicates.report import DuplicateReport


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    return edited_index(edited_photos(folder / "photos"), folder / "photos.solar")


def run(*arguments: object) -> None:
    app(["duplicates", *map(str, arguments)], standalone_mode=False)


def test_a_report_a_table_and_json(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, table = tmp_path / "report.json", tmp_path / "report.csv"
    run(index, "-o", report, "--csv", table, "--kinds", "exact,crop", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told[1] == {"kind": "crop", "photos": ["03.png", "edited/03.jpg"], "keep": ["03.png"]}
    assert [group["kind"] for group in told] == ["exact", "crop"]
    assert [group.kind for group in DuplicateReport.read(report)] == ["exact", "crop"]
    with table.open(newline="", encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 5
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.csv", "report.json"]


def test_reports_lie_beside_the_index_and_one_of_new_photos_replaces_no_other(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, page = tmp_path / "photos.solar", tmp_path / "page.html"
    shutil.copytree(index, place, ignore=shutil.ignore_patterns("local"))
    with pytest.raises(SolarError, match="--new needs an index"):
        run(place, "--new")
    run(place, "--kinds", "exact", "--html", page)
    report, new = tmp_path / "photos.duplicates.json", tmp_path / "photos.duplicates-new.json"
    compared = DuplicateReport.read(report).photos
    assert capsys.readouterr().out.splitlines() == [
        f"Groups: 1 exact; 1 of {compared} photos may be removed → {report}",
        f"Page → {page}",
        f"`solar serve {place}` shows them in the browser.",
    ]
    run(place, "--kinds", "exact", "--new")
    assert capsys.readouterr().out.startswith("Groups: none;")
    assert len(list(DuplicateReport.read(report))) == 1
    assert not list(DuplicateReport.read(new))


def test_files_that_cannot_be_read_are_listed(
    index: Path,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    photos = tmp_path / "photos"
    photos.mkdir()
    shutil.copy(index.parent / "photos" / "03.png", photos)
    (photos / "torn.png").touch()
    for name in ("duplicates", "groups"):
        app([name, "photos", "--model", str(model)], standalone_mode=False)
        told = capsys.readouterr()
        assert "1 photo, skipped 1\n  torn.png: it is empty: get a complete copy" in told.err
        assert told.out.endswith(f"→ {name}.json\n")  # no index, so nothing to serve
    with pytest.raises(SolarError, match="photos"):
        run("photos", "--new", "--model", "solar-r18")


def test_paths_are_printed_for_other_tools_and_no_report_is_replaced(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(index, "--kinds", "crop", "--print", "rest", "-0")
    assert not any(file.suffix == ".json" for file in index.parent.iterdir())
    path = capsys.readouterr().out.removesuffix("\0")
    assert Path(path) == index.parent / "photos" / "edited" / "03.jpg"
    assert Path(path).exists()  # nobody has deleted it


def test_a_killed_run_ends_with_the_same_report(index: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole.json", tmp_path / "killed.json"
    begin = time.monotonic()
    solar("duplicates", index, "-o", whole)
    usual = time.monotonic() - begin
    for share in (0.3, 0.6, 0.9):
        process = subprocess.Popen(
            command("duplicates", index, "-o", killed), env=environment(), stderr=subprocess.DEVNULL
        )
        try:
            process.wait(share * usual)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    solar("duplicates", index, "-o", killed)
    assert killed.read_bytes() == whole.read_bytes()


def test_photos_that_have_moved_are_found(index: Path, tmp_path: Path) -> None:
    place, there = tmp_path / "photos.solar", tmp_path / "photos"
    shutil.copytree(index, place, ignore=shutil.ignore_patterns("local"))
    there.mkdir()
    for name in ("03.png", "edited"):
        (there / name).symlink_to(index.parent / "photos" / name)
    report, table = tmp_path / "report.json", tmp_path / "report.csv"
    run(place, "-o", report, "--csv", table, "--kinds", "crop", "--photos", there)
    assert [group.rest for group in DuplicateReport.read(report)] == [["edited/03.jpg"]]
    assert DuplicateReport.read(report).roots == Roots.at(there)


def test_an_empty_index_has_an_empty_report(index: Path, tmp_path: Path) -> None:
    shutil.copytree(index, tmp_path / "photos.solar")
    with Index.open(tmp_path / "photos.solar") as opened:
        opened.remove([photo.path for some in opened.engine.photos() for photo in some])
    run(tmp_path / "photos.solar", "-o", tmp_path / "report.json")
    assert list(DuplicateReport.read(tmp_path / "report.json")) == []
    assert DuplicateReport.read(tmp_path / "report.json").photos == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kinds", "twin"], "no kind 'twin'"),
        (["--json", "--print", "keep"], "choose one"),
        (["--size", "64"], "already holds embeddings"),
        (["--csv", "."], "is a folder: name the table"),
        (["--html", "."], "is a folder: name the page"),
        (["--csv", "report.json"], "cannot be both the report and the table"),
        (["--csv", "both", "--html", "both"], "both cannot be both the table and the page"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SolarError, match=words):
        run(index, "-o", tmp_path / "report.json", *options)
    assert not (tmp_path / "report.json").exists()
