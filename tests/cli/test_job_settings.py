"""The defaults of commands are those of the functions of the same name."""

from dataclasses import fields
from inspect import signature

import pytest

from solar.albums.groups import GroupSettings
from solar.cli.duplicates import duplicates
from solar.cli.groups import groups
from solar.cli.pairs import pairs
from solar.near_duplicates.find import DuplicateSettings
from solar.sfm.pairs import PairSettings


@pytest.mark.parametrize(
    ("command", "settings"),
    [(duplicates, DuplicateSettings()), (groups, GroupSettings()), (pairs, PairSettings())],
)
def test_a_command_has_an_option_for_every_setting_with_its_default(
    command: object, settings: object
) -> None:
    assert callable(command)
    options = signature(command).parameters
    for field in fields(settings):  # type: ignore[arg-type]
        default = options[field.name].default
        if field.name == "kinds":
            default = tuple(default.split(","))
        assert default == getattr(settings, field.name)
