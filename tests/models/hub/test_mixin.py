"""What needs no hub; `test_hub.py` has the rest."""

from pathlib import Path

import pytest

from solar.errors import SolarError
from solar.models import PatchNet, RetrievalNet, fingerprint


def test_a_network_is_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = PatchNet()
    assert net.save_pretrained("nets/mine") == Path("nets/mine")
    # A path that is there is a path, though it looks like a repository.
    again = PatchNet.from_pretrained("nets/mine", device="cpu")
    assert fingerprint(again) == fingerprint(net)


def test_whatever_load_takes_is_taken() -> None:
    assert PatchNet.from_pretrained("solar-local-345", device="cpu").source == "solar-local-345"


def test_a_network_of_another_class_is_refused() -> None:
    with pytest.raises(SolarError, match=r"solar-local-345 .*PatchNet.*RetrievalNet"):
        RetrievalNet.from_pretrained("solar-local-345")


def test_a_file_that_is_missing_is_no_repository() -> None:
    with pytest.raises(SolarError, match=r"runs/best\.safetensors"):
        PatchNet.from_pretrained("runs/best.safetensors")


def test_only_the_hub_has_revisions() -> None:
    with pytest.raises(SolarError, match=r"solar-local-345 .*hub"):
        PatchNet.from_pretrained("solar-local-345", revision="v2")
