"""Names that are imported when they are first used."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

LAZY = ["solar", "solar.describe", "solar.evaluation", "solar.models", "solar.web"]


@pytest.mark.parametrize("name", LAZY)
def test_every_name_of_the_block_is_offered_and_found(name: str) -> None:
    package = import_module(name)
    written = [
        alias.name
        for block in ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8")).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert written
    assert package.__all__ == dir(package) == sorted(written)
    # A module of the same name would hide what it offers once it is imported.
    assert not {path.stem for path in Path(str(package.__file__)).parent.iterdir()} & set(written)
    for one in written:
        assert getattr(package, one) is not None


@pytest.mark.parametrize("name", LAZY)
def test_other_names_are_missing_as_from_any_module(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        import_module(name).nothing  # noqa: B018
