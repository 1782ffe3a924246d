"""The map of the package names what there is, and nothing else."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "solar"
TEXT = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def rows() -> dict[str, str]:
    """The packages and modules in the table, and where to begin reading each."""
    found = re.findall(r"^\| (`[^|]+) \|[^|]+\| `([^`]+)` \|$", TEXT, re.MULTILINE)
    return {name: first for names, first in found for name in re.findall("`([^`]+)`", names)}


def test_every_package_and_module_is_in_the_table() -> None:
    packages = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    modules = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("_")}
    assert set(rows()) == packages | modules


def test_the_files_to_begin_with_exist() -> None:
    folders = {name: SOURCE / name if name.endswith("/") else SOURCE for name in rows()}
    assert [first for name, first in rows().items() if not (folders[name] / first).exists()] == []


def test_every_file_that_the_text_names_exists() -> None:
    named = set(re.findall(r"`([\w.-]+/[\w./-]*)`", TEXT))
    missing = {
        name
        for name in named
        if not (SOURCE / name).exists()
        and not (REPOSITORY / name).exists()
        and not (SOURCE / "web" / name).exists()
    }
    assert missing == set()


def test_every_package_is_in_the_drawing() -> None:
    drawing = TEXT.split("```text")[1].split("```")[0]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {name for name in packages if not re.search(rf"\b{name}\b", drawing)} <= {"doctor"}


def test_tests_benchmarks_and_recipes_that_pages_name_exist() -> None:
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    pages += [*(REPOSITORY / "docs").glob("*.md"), *(SOURCE / "weights").glob("*.md")]
    file = r"\b(?:tests|benchmarks|recipes|examples)/[\w/.-]+\.(?:py|yaml|ipynb|jsonl?)\b"
    named = {name for page in pages for name in re.findall(file, page.read_text(encoding="utf-8"))}
    assert len(named) > 50
    assert {name for name in named if not (REPOSITORY / name).exists()} == set()
