from pathlib import Path

import pytest

from solar.cli import app
from solar.cli.help import OPTIONS, at_home, with_options
from solar.errors import SolarError


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("~", "/home/me"),
        ("~/a b.jpg", "/home/me/a b.jpg"),
        (Path("~/a.jpg"), Path("/home/me/a.jpg")),
        ("data.source=~/photos", "data.source=/home/me/photos"),
        (["~/a", "b"], ["/home/me/a", "b"]),
        (("~/a", "~/b"), ("/home/me/a", "/home/me/b")),
        ("~backup.jpg", "~backup.jpg"),
        ("~nobody-of-this-name/a", "~nobody-of-this-name/a"),
        ("photos/~/a", "photos/~/a"),
        ("milvus://host/~/a", "milvus://host/~/a"),
        (3, 3),
        (None, None),
    ],
)
def test_home_folders_are_found_where_a_path_begins(given: object, meant: object) -> None:
    assert at_home(given) == meant


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", "info", "~/it"),
        ("convert", "~/it", "-o", "out.safetensors"),
        ("describe", "~/it", "--output=out.npy"),
        ("data", "build", "~/it", "-o", "out.json"),
    ],
)
def test_every_command_finds_them_in_addresses_models_and_paths(arguments: list[str]) -> None:
    with pytest.raises(SolarError, match="/home/me/it"):
        app(arguments, standalone_mode=False)


def test_a_complaint_of_the_library_names_the_options_of_the_command() -> None:
    with pytest.raises(SolarError, match="--codebook needs --method asmk"):
        app(["evaluate", "photos", "--codebook", "a.asmk"], standalone_mode=False)
    OPTIONS.update(check_space=("--check-space", "--ignore-space"), least=("--min-inliers",))
    assert with_options("or `check_space=False`, or lower `least=`.") == (
        "or --ignore-space, or lower --min-inliers."
    )
    assert with_options("give it as `anything=3`") == "give it as `anything=3`"
