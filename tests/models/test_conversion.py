"""Folders for the hub; `test_checkpoint.py` has the formats that are files."""

from pathlib import Path

import pytest

from solar.errors import SolarError
from solar.models import convert, fingerprint, load


def test_a_model_becomes_a_folder_for_the_hub(tmp_path: Path) -> None:
    folder = convert("solar-local-345", tmp_path / "local", hub=True, half=True)
    assert folder == tmp_path / "local"
    again = convert(folder, tmp_path / "again.safetensors")
    prints = {fingerprint(load(one)) for one in ("solar-local-345", folder, again)}
    assert len(prints) == 1


def test_a_folder_is_written_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"must end in .*`hub=True` writes a folder"):
        convert("solar-local-345", tmp_path / "local")
    assert list(tmp_path.iterdir()) == []
