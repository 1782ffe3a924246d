import platform
from pathlib import Path

import pytest

from solar.doctor.privacy import shareable


@pytest.fixture(autouse=True)
def ada(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "ada"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    monkeypatch.setattr(platform, "node", lambda: "tower.example")
    return home


def test_the_home_folder_becomes_a_tilde(ada: Path) -> None:
    assert shareable(f"{ada}/.cache/solar is full") == "~/.cache/solar is full"


def test_a_folder_that_only_begins_like_it_stays(ada: Path) -> None:
    assert shareable(f"{ada}-2/x").endswith("ada-2/x")


def test_a_home_behind_a_link_is_found(
    ada: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(ada)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    assert shareable(f"{ada}/x {tmp_path / 'link'}/y") == "~/x ~/y"


def test_the_name_is_taken_out_of_other_paths_but_not_out_of_words() -> None:
    assert shareable("/data/ada/photos by ada and adam, /data/adam") == (
        "/data/USER/photos by ada and adam, /data/adam"
    )


def test_the_machine_is_not_named() -> None:
    assert shareable("tower.example refused, not tower.examples") == (
        "HOST refused, not tower.examples"
    )


def test_a_home_that_is_the_root_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert shareable("/usr/lib") == "/usr/lib"
