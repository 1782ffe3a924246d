"""Every figure of the pages can be measured again."""

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py"))
# They measure nothing that a page shows: they write pages or networks, or gather photos.
OTHERS = {"all.py", "box_photos.py", "calibration_photos.py", "cluster_memory.py", "lite_start.py"}
OTHERS |= {"readme_figures.py", "readme_picture.py", "sizing.py"}


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sys.modules.pop("all", None)
    import all as table

    yield table
    del sys.modules["all"]


def test_results_that_pages_cite_can_be_measured_again(table: ModuleType) -> None:
    known = {figure.name for figure in table.figures()}
    for page in table.PAGES:
        cited = re.findall(r"benchmarks/results/([\w-]+)\.json", page.read_text(encoding="utf-8"))
        assert set(cited) <= known, page


def test_every_figure_has_its_page(table: ModuleType) -> None:
    assert [figure.name for figure in table.figures() if not figure.cited] == []


def test_every_script_is_in_the_table(table: ModuleType) -> None:
    assert {figure.command.split()[0] for figure in table.figures()} == set(SCRIPTS) - OTHERS


def test_every_script_says_how_it_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for script in SCRIPTS:
        monkeypatch.setattr(sys, "argv", [script, "--help"])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
        assert stopped.value.code == 0
        assert script in capsys.readouterr().out


def test_options_of_the_table_are_those_of_the_scripts(
    table: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for figure in table.figures():
        script, *words = figure.command.split()
        monkeypatch.setattr(sys, "argv", [script, "--help"])
        with pytest.raises(SystemExit):
            runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
        help_text = capsys.readouterr().out
        for word in words:
            assert not word.startswith("--") or f"{word} " in help_text, figure.name


def test_only_what_is_due_and_possible_is_measured(
    table: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    (tmp_path / "count.py").write_text(script)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/new.json").write_text('{"machine": {"date": "2030-01-02"}}')
    made = """
new
    count.py {result} again
missing
    count.py {result} {word}
elsewhere
    count.py {result} {nowhere}
device, gpu
    count.py {result} word
"""
    monkeypatch.setattr(table, "FOLDER", tmp_path)
    monkeypatch.setattr(table, "FIGURES", made)
    monkeypatch.setattr(table, "WRITERS", ())
    monkeypatch.setattr(table, "prevented", lambda needs: "no GPU" if needs == "gpu" else "")
    monkeypatch.setattr(sys, "argv", ["all.py", "--where", "word=first"])
    table.main()
    assert (tmp_path / "results/missing.json").read_text() == "first"
    assert '"date"' in (tmp_path / "results/new.json").read_text()
    assert not (tmp_path / "results/device.json").exists()
    assert "nowhere=PATH" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["all.py", "--only", "new", "--since", "2030-01-03"])
    table.main()
    assert (tmp_path / "results/new.json").read_text() == "again"
