import pytest

from solar.cli import app
from solar.cli.help import OPTIONS, with_options
from solar.errors import SolarError


def test_a_complaint_of_the_library_names_the_options_of_the_command() -> None:
    with pytest.raises(SolarError, match="--codebook needs --method asmk"):
        app(["evaluate", "photos", "--codebook", "a.asmk"], standalone_mode=False)
    OPTIONS.update(check_space=("--check-space", "--ignore-space"), least=("--min-inliers",))
    assert with_options("or `check_space=False`, or lower `least=`.") == (
        "or --ignore-space, or lower --min-inliers."
    )
    assert with_options("give it as `anything=3`") == "give it as `anything=3`"
