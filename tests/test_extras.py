"""How to get what is missing is written in one way, and names an extra that there is."""

import re
import tomllib
from pathlib import Path

import pytest

from solar.doctor.report import install_line

REPOSITORY = Path(__file__).parents[1]
SENTENCES = sorted((REPOSITORY / "src").rglob("*.py"))
_EXTRA = re.compile(r".{0,13}solar-retrieval\[([^\]]*)\].?")


@pytest.fixture(scope="module")
def mentions() -> list[tuple[str, str, str]]:
    """Path, text and extra of every place in the source that names one."""
    return [
        (path.name, found[0], found[1])
        for path in SENTENCES
        for found in _EXTRA.finditer(path.read_text(encoding="utf-8"))
        if "{" not in found[1]
    ]


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Extras whose modules are imported by `optional`."""
    texts = (path.read_text(encoding="utf-8") for path in SENTENCES)
    return {extra for text in texts for extra in re.findall(r'optional\("[\w.]+", "(\w+)"', text)}


def test_every_sentence_says_it_as_the_doctor_does(mentions: list[tuple[str, str, str]]) -> None:
    assert mentions
    assert [(name, text) for name, text, extra in mentions if install_line(extra) != text] == []


def test_every_extra_that_is_named_exists(
    mentions: list[tuple[str, str, str]], imported: set[str]
) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert imported >= {"milvus", "parquet", "sfm", "backbones"}
    named = imported | {extra for _, _, extra in mentions}
    assert named <= set(project["optional-dependencies"])
