import re
import tomllib
from pathlib import Path

import pytest

from solar.doctor.packages import EXTRAS, PACKAGES, Package, examined
from solar.doctor.probe import Attempt

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
# These are for who works on solar, not for who works with it.
OURS = {"all", "dev", "docs"}


def _packages() -> set[tuple[str, str]]:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        (re.split(r"[^\w-]", line)[0].lower(), extra)
        for extra, lines in extras.items()
        if extra not in OURS
        for line in lines
    }


def test_every_package_that_solar_asks_for_is_looked_at() -> None:
    assert {(package.name, package.extra) for package in PACKAGES} == _packages()


def test_every_extra_says_what_it_is_for() -> None:
    assert set(EXTRAS) == {package.extra for package in PACKAGES} - {""}


@pytest.mark.parametrize(
    ("answer", "state"),
    [(None, "installed"), (Attempt(True), "works"), (Attempt(False, "ImportError: no"), "broken")],
)
def test_what_is_installed_works_or_is_broken(answer: Attempt | None, state: str) -> None:
    package = examined(Package("numpy", "numpy"), answer)
    assert package.state == state
    assert re.match(r"\d+\.\d+", package.version)


def test_what_is_not_installed_is_missing() -> None:
    assert examined(Package("no-such-package", "no_such_module", "local"), None).state == "missing"


def test_a_package_may_go_by_another_name() -> None:
    assert examined(Package("numpy-by-somebody-else", "numpy"), None).version


def test_a_half_removed_package_does_not_stop_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half.py").write_text("__spec__ = None")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("half")
    assert not Package("half", "half").installed
