"""The notebooks run from top to bottom, offline, with the extras that they name and no others."""

import ast
import json
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from support.boxed import needs_weights

REASON = 'pip install "solar-retrieval[dev]"'
nbformat = pytest.importorskip("nbformat", reason=REASON)
nbclient = pytest.importorskip("nbclient", reason=REASON)
pytest.importorskip("ipykernel", reason=REASON)

from support.notebooks import EXAMPLES, SHOWN, cleaned, run  # noqa: E402 (it needs nbformat)

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
PROJECT = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["project"]
EXTRAS = {
    name: {re.split(r"[<>=\[;]", needed)[0].lower() for needed in wanted}
    for name, wanted in PROJECT["optional-dependencies"].items()
    if name not in ("all", "dev")
}

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> "nbformat.NotebookNode":
    return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)


def code(notebook: "nbformat.NotebookNode") -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def named_extras(notebook: "nbformat.NotebookNode") -> set[str]:
    """The extras that the first cell tells a reader to install."""
    named = re.findall(r'pip install "solar-retrieval\[([\w,]+)\]"', notebook.cells[0].source)
    return {extra for names in named for extra in names.split(",")}


def modules(extras: set[str]) -> set[str]:
    """What can be imported because these extras are installed."""
    wanted = {distribution for extra in extras for distribution in EXTRAS[extra]}
    return {
        module
        for module, homes in packages_distributions().items()
        if wanted & {home.lower().replace("_", "-") for home in homes}
    }


def run_with(
    notebook: "nbformat.NotebookNode", folder: Path, allowed: set[str]
) -> "nbformat.NotebookNode":
    """Run a notebook as if no extras but those allowed were installed."""
    absent = modules(set(EXTRAS)) - modules(allowed)
    first = f"import sys; sys.modules.update(dict.fromkeys({sorted(absent)}))"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(first))
    return run(notebook, folder)


def shown(notebook: "nbformat.NotebookNode") -> list["nbformat.NotebookNode"]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def test_there_are_five() -> None:
    names = {path.stem for path in NOTEBOOKS}
    assert names >= {"attention", "evaluate", "match", "search", "train"}


@every_notebook
def test_nothing_that_running_leaves_is_committed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == cleaned(text), "make format takes it out."


@every_notebook
def test_every_cell_has_a_name_that_stays(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    names = [cell.id for cell in notebook.cells]
    assert len(set(names)) == len(names)
    assert not [name for name in names if not re.fullmatch(r"[a-z]+(-[a-z]+)*", name)]


@every_notebook
def test_the_first_cell_says_what_is_needed_and_how_to_use_ones_own(path: Path) -> None:
    first = read(path).cells[0].source
    assert named_extras(read(path)) or "needs only the base install" in first
    assert named_extras(read(path)) <= set(EXTRAS)
    assert len([line for line in first.splitlines() if line.startswith("*Your own photo")]) == 1


@every_notebook
def test_what_the_site_shows_is_what_these_cells_showed(path: Path) -> None:
    shown = json.loads((SHOWN / f"{path.stem}.json").read_text(encoding="utf-8"))
    reason = "python tests/support/notebooks.py --show writes it anew."
    assert [cell["code"] for cell in shown] == code(read(path)), reason
    pictures = [one["picture"] for cell in shown for one in cell["shows"] if "picture" in one]
    assert sorted(pictures) == sorted(file.name for file in SHOWN.glob(f"{path.stem}-*")), reason


@every_notebook
def test_it_checks_what_it_has_found(path: Path) -> None:
    plain = "\n".join(line for line in "\n".join(code(read(path))).splitlines() if line[:1] != "%")
    assert [node for node in ast.walk(ast.parse(plain)) if isinstance(node, ast.Assert)]


@every_notebook
def test_its_links_lead_to_files(path: Path) -> None:
    texts = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    links = [link for text in texts for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert links
    assert [link for link in links if not (EXAMPLES / link.partition("#")[0]).exists()] == []


def test_a_cell_that_fails_is_noticed(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell("found = []"), nbformat.v4.new_code_cell("assert found")]
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="AssertionError"):
        run_with(nbformat.v4.new_notebook(cells=cells), tmp_path, set())


def test_an_extra_that_is_not_named_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    cells = [nbformat.v4.new_code_cell("import yaml")]
    run_with(nbformat.v4.new_notebook(cells=list(cells)), tmp_path, {"train"})
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ModuleNotFoundError"):
        run_with(nbformat.v4.new_notebook(cells=list(cells)), tmp_path, {"show"})


@needs_weights
@every_notebook
def test_it_runs_and_shows_pictures(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    allowed = named_extras(notebook)
    for extra in allowed:
        if not modules({extra}):
            pytest.skip(f'{path.name} needs more: pip install "solar-retrieval[{extra}]"')
    outputs = shown(run_with(notebook, tmp_path, allowed))
    assert [output for output in outputs if "image/png" in output.get("data", {})]
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
