"""Every command on a folder as real life fills it, and on one that changes while it is indexed."""

import contextlib
import csv
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pytest
from support.nasty_folder import GOOD, fill, photo
from support.running import command, environment

import solar as package
from solar.cli import main
from solar.cli.progress import StepBars
from solar.errors import printable
from solar.index import Index

UNREADABLE = ("\x1b", "\udce9", "break.jpg\n")
"""What names of the folder hold and a terminal must not get."""


class Told(NamedTuple):
    out: str
    err: str


def solar(*arguments: object, expect: int = 0) -> Told:
    """Run the command in this process, and insist on its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(sys, "argv", ["solar", *map(str, arguments)])
        with contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    told = Told(*(file.buffer.getvalue().decode() for file in _flushed(out, err)))
    assert (ended.value.code or 0) == expect, told
    assert "Traceback" not in told.err
    assert "Warning" not in told.err
    return told


def _flushed(*files: io.TextIOWrapper) -> Iterator[io.TextIOWrapper]:
    for file in files:
        file.flush()
        yield file


class Nasty(NamedTuple):
    folder: Path
    skipped: dict[str, str]  # by name, a word of the reason


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Nasty:
    folder = tmp_path_factory.mktemp("nasty") / "photos"
    return Nasty(folder, fill(folder))


class Built(NamedTuple):
    index: Path
    told: Told
    report: dict


@pytest.fixture(scope="module")
def built(nasty: Nasty, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("built")
    index, report = home / "new" / "i.solar", home / "report.json"
    told = solar(
        *("index", "build", nasty.folder, "-o", index, "--model", model, "--report", report)
    )
    return Built(index, told, json.loads(report.read_text()))


def paths(index: Path) -> set[str]:
    with Index.open(index) as opened:
        return {photo.path for batch in opened.engine.photos() for photo in batch}


def check_report(report: dict, expected: dict[str, str], key: str = "indexed") -> None:
    skipped = {one["path"]: one["reason"] for one in report["skipped"]}
    assert skipped.keys() == expected.keys()
    for name, word in expected.items():
        assert word in skipped[name], name
    assert report[key] == len(GOOD)


def check_told(told: Told, count: int, skipped: int, verb: str = "Indexed") -> None:
    assert f"{verb} {count} photos, skipped {skipped} → " in told.err
    for raw in UNREADABLE:
        assert raw not in told.out + told.err


# A folder with everything


def test_index_build_takes_what_is_good_and_says_why_not_the_rest(
    nasty: Nasty, built: Built
) -> None:
    assert paths(built.index) == GOOD
    check_told(built.told, len(GOOD), len(nasty.skipped))
    check_report(built.report, nasty.skipped)
    assert sorted(file.name for file in built.index.parent.iterdir()) == ["i.solar"]
    with Index.open(built.index) as index:
        assert index.skipped.keys() == nasty.skipped.keys()
        assert index.check() == []


def test_index_add_does_the_same(nasty: Nasty, model: Path, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "a.jpg").write_bytes(photo(70))
    index, report = tmp_path / "i.solar", tmp_path / "report.json"
    solar("index", "build", tmp_path / "first", "-o", index, "--model", model)
    told = solar("index", "add", index, nasty.folder, "--report", report)
    assert paths(index) == {"a.jpg", *(f"photos//{name}" for name in GOOD)}
    check_told(told, len(GOOD), len(nasty.skipped))
    renamed = {f"photos//{name}": word for name, word in nasty.skipped.items()}
    check_report(json.loads(report.read_text()), renamed)


def test_index_sync_does_the_same(model: Path, tmp_path: Path) -> None:
    folder, index = tmp_path / "photos", tmp_path / "i.solar"
    folder.mkdir()
    (folder / "gone.jpg").write_bytes(photo(70))
    solar("index", "build", folder, "-o", index, "--model", model)
    shutil.rmtree(folder)
    skipped = fill(folder)
    would = solar("index", "sync", index, "--dry-run")
    assert f"Would change: {len(GOOD) + 8} new, 0 changed, 0 moved, 1 deleted" in would.err
    assert paths(index) == {"gone.jpg"}
    told = solar("index", "sync", index, "--report", tmp_path / "report.json")
    assert paths(index) == GOOD
    assert f"Updated: {len(GOOD)} new, 0 changed, 0 moved, 1 deleted, 0 unchanged" in told.err
    for raw in UNREADABLE:
        assert raw not in would.err + told.err
    check_report(json.loads((tmp_path / "report.json").read_text()), skipped)
    again = json.loads(solar("index", "sync", index, "--json").out)
    assert (again["new"], again["unchanged"]) == ([], len(GOOD))
    assert again["skipped"].keys() == skipped.keys()


def test_describe_refuses_at_once_or_skips(nasty: Nasty, model: Path, tmp_path: Path) -> None:
    files = [file for file in nasty.folder.iterdir() if not file.is_dir()]
    output, report = tmp_path / "v.npy", tmp_path / "report.json"
    told = solar("describe", *files, "-o", output, "--model", model, expect=2)
    assert told.err.count("\n") == 1
    assert not output.exists()
    told = solar(
        *("describe", *files, "-o", output, "--model", model, "--skip-bad", "--report", report)
    )
    good = [name for name in GOOD if "/" not in name] + ["caf\udce9.jpg"]  # no name is kept
    assert np.load(output).shape == (len(good), 16)
    check_told(told, len(good), len(nasty.skipped) - 1, "Described")
    facts = json.loads(report.read_text())
    assert {Path(name).name for name in facts["photos"]} == set(good)
    assert {Path(one["path"]).name for one in facts["skipped"]} == nasty.skipped.keys() - set(good)


def test_links_to_folders_are_not_entered_where_asked(
    nasty: Nasty, model: Path, tmp_path: Path
) -> None:
    index = tmp_path / "i.solar"
    solar("index", "build", nasty.folder, "-o", index, "--model", model, "--no-follow")
    assert paths(index) == GOOD - {"linked/by-link.jpg"}


def test_photos_with_many_pixels_are_skipped_until_they_are_allowed(
    model: Path, tmp_path: Path
) -> None:
    folder, index = tmp_path / "photos", tmp_path / "i.solar"
    folder.mkdir()
    (folder / "small.jpg").write_bytes(photo(1))
    (folder / "large.jpg").write_bytes(photo(2, size=(300, 200)))
    told = solar(*("index", "build", folder, "-o", index, "--model", model, "--max-pixels", 20_000))
    assert "Indexed 1 photo, skipped 1" in told.err
    assert "--max-pixels" in told.err
    assert "0 new" in solar("index", "sync", index).err
    assert "1 new" in solar("index", "sync", index, "--max-pixels", 100_000).err
    assert paths(index) == {"small.jpg", "large.jpg"}


# A run that was stopped


@pytest.fixture
def stopped(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index that Ctrl-C kept from being finished, beside its eight photos."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for seed in range(8):
        (folder / f"{seed}.jpg").write_bytes(photo(seed))
    monkeypatch.setattr("solar.index.index.rows_for", lambda *_: 3)
    show = StepBars.__call__

    def interrupted(self: StepBars, step: str, done: int, total: int) -> None:
        show(self, step, done, total)
        if done > 3:
            raise KeyboardInterrupt

    index = tmp_path / "i.solar"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StepBars, "__call__", interrupted)
        told = solar("index", "build", folder, "-o", index, "--model", model, expect=130)
    assert "Stopped after 6 of 8 photos; run the same command again to continue." in told.err
    assert len(paths(index)) == 3
    return index


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many photos commands describe from now on, batch by batch."""
    counts = list[int]()
    show = StepBars.__call__

    def counted(self: StepBars, step: str, done: int, total: int) -> None:
        before = self.done
        show(self, step, done, total)
        counts.append(self.done - before)

    monkeypatch.setattr(StepBars, "__call__", counted)
    return counts


def test_a_stopped_run_goes_on_although_the_folder_has_changed(
    stopped: Path, model: Path, tmp_path: Path, described: list[int]
) -> None:
    folder = tmp_path / "photos"
    (folder / "new.jpg").write_bytes(photo(20))
    (folder / "0.jpg").rename(folder / "moved.jpg")
    (folder / "1.jpg").write_bytes(photo(21))
    (folder / "7.jpg").unlink()
    told = solar("index", "build", folder, "-o", stopped, "--model", model)
    assert sum(described) == 6  # not 2 and what was 0
    assert "Indexed 8 photos → " in told.err
    with Index.open(stopped) as index:
        assert index.check() == []
        for name in ("moved.jpg", "1.jpg", "2.jpg", "new.jpg"):
            [best] = index.search(folder / name, 1, include_self=True, rerank=None)
            assert (best.path, best.score) == (name, pytest.approx(1, abs=1e-4))


def test_other_settings_in_between_are_refused_with_the_folder_to_delete(
    stopped: Path, model: Path, tmp_path: Path
) -> None:
    command = ("index", "build", tmp_path / "photos", "-o", stopped, "--model", model)
    told = solar(*command, "--size", 48, expect=2)
    assert told.err.count("\n") == 1
    assert f"{stopped} was made with another size (64, not 48): use" in told.err
    assert told.err.endswith("or delete it to start over.\n")
    shutil.rmtree(stopped)
    solar(*command, "--size", 48)


# Searching


def test_an_iphone_photo_is_found(nasty: Nasty, built: Built) -> None:
    file = nasty.folder / "iphone.heic"
    hits = json.loads(solar("search", built.index, file, "--include-self", "--json").out)
    assert hits[0]["path"] == "iphone.heic"
    assert hits[0]["score"] == pytest.approx(1, abs=1e-4)


def test_hits_carry_their_absolute_paths(nasty: Nasty, built: Built, tmp_path: Path) -> None:
    command = ("search", built.index, nasty.folder / "a.jpg", "-k", 20)
    hits = json.loads(solar(*command, "--json").out)
    assert {hit["path"] for hit in hits} == GOOD - {"a.jpg"}
    for hit in hits:
        assert hit["absolute"] == str(nasty.folder / hit["path"])
        assert Path(hit["absolute"]).is_file()
    table = tmp_path / "hits.csv"
    solar(*command, "--csv", table, "--include-self")
    rows = list(csv.DictReader(table.open(errors="surrogateescape", newline="")))
    assert {row["path"]: row["absolute"] for row in rows} == {
        name: str(nasty.folder / name) for name in GOOD
    }
    assert rows[0]["path"] == "a.jpg"


def test_a_line_a_photo_is_printed_whatever_it_is_called(nasty: Nasty, built: Built) -> None:
    told = solar("search", built.index, "a.jpg", "-k", 20, "--no-rerank")
    assert {line.split("  ", 1)[1] for line in told.out.splitlines()} == {
        printable(name) for name in GOOD - {"a.jpg"}
    }


def test_the_page_links_to_the_photos(nasty: Nasty, built: Built, tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    solar("search", built.index, nasty.folder / "a.jpg", "-k", 20, "--html", page)
    text = page.read_text()
    links = {unquote(part.partition('"')[0]) for part in text.split('href="file://')[1:]}
    links = {link.replace("&amp;", "&") for link in links}
    assert links == {str(nasty.folder / name) for name in GOOD - {"a.jpg"}}
    assert "photo not found" not in text


# Watching


def test_watching_indexes_what_comes_until_ctrl_c(model: Path, tmp_path: Path) -> None:
    folder, index = tmp_path / "photos", tmp_path / "i.solar"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(photo(1))
    solar("index", "build", folder, "-o", index, "--model", model)
    watching = subprocess.Popen(
        command("index", "sync", index, "--watch", "--every", "0.2"),
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert watching.stderr is not None
    os.set_blocking(watching.stderr.fileno(), False)
    told, until = "", time.monotonic() + 90
    try:
        for wanted in ("Checking every 0.2 s", "1 new, 0 changed, 0 moved, 0 deleted", "Stopped."):
            while wanted not in told and time.monotonic() < until:
                select.select([watching.stderr], [], [], 0.5)
                told += (watching.stderr.read() or b"").decode()
            assert wanted in told
            if wanted.startswith("Checking"):
                (folder / "b.jpg").write_bytes(photo(2))
            elif wanted.startswith("1 new"):
                assert paths(index) == {"a.jpg", "b.jpg"}
                watching.send_signal(signal.SIGINT)
        assert watching.wait(30) in (0, 130)
    finally:
        watching.kill()
        watching.wait()
        watching.stderr.close()
    assert "Traceback" not in told


def test_a_look_without_a_change_does_not_go_with_watching(built: Built) -> None:
    told = solar("index", "sync", built.index, "--watch", "--dry-run", expect=2)
    assert "leave out --watch" in told.err


# The same in Python


def test_one_call_builds_and_another_synchronises(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for seed in range(3):
        (folder / f"{seed}.jpg").write_bytes(photo(seed))
    (folder / "bad.jpg").write_text("no photo")
    with package.build(folder, tmp_path / "i.solar", model=model) as index:
        assert (len(index), list(index.skipped)) == (3, ["bad.jpg"])
        assert repr(index).startswith(f"<Index '{tmp_path / 'i.solar'}': 3 photos")
        (folder / "3.jpg").write_bytes(photo(3))
        assert package.sync(index).new == ("3.jpg",)
        assert len(index) == 4
    assert str(package.sync(tmp_path / "i.solar")).startswith("0 new")


def test_an_index_knows_where_its_photos_are(nasty: Nasty, model: Path, tmp_path: Path) -> None:
    with package.build(nasty.folder, tmp_path / "i.solar", model=model) as index:
        hits = index.search(nasty.folder / "a.jpg", 3, rerank="verify")
        assert all(hit.inliers is not None for hit in hits)
        assert all(Path(hit.absolute or "").is_file() for hit in hits)
    solar("search", tmp_path / "i.solar", "a.jpg", "--html", tmp_path / "page.html")
    assert "photo not found" not in (tmp_path / "page.html").read_text()
    assert "0 new, 0 changed" in solar("index", "sync", tmp_path / "i.solar").err
