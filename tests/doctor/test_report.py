import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from solar import files
from solar.doctor import Report, examine
from solar.doctor.probe import Attempt
from solar.doctor.report import (
    EXTRAS,
    PACKAGES,
    Package,
    device_rows,
    examined,
    package_sections,
    problems,
)
from solar.models import zoo

TORCH = Package("torch", "", "", "2.9", "works")
GPU = {"name": "Toy 9000", "memory": 8 * 2**30, "capability": "9.0"}
DEVICES = {"used": "cpu", "cpu": "AVX2", "threads": 2, "cuda": None, "gpus": []}
CARD = "Toy 9000, driver 1.2"


def test_the_text_and_the_json_tell_the_same() -> None:
    report = Report([], {"Devices": {"cpu": "AVX2", "by default": "cpu"}})
    assert report.to_text().endswith("\n\nDevices\n  cpu         AVX2\n  by default  cpu")
    assert report.to_json()["Devices"]["cpu"] == "AVX2"
    assert report.to_json()["works"]
    assert not replace(report, problems=["No."]).to_json()["works"]


def test_packages_are_told_by_what_needs_them() -> None:
    packages = [
        TORCH,
        Package("fastapi", "", "web", "0.1", "works"),
        Package("onnx", "", "export", "1.17", "broken", "ImportError: no symbol"),
        Package("dask", "", "dask", "", "missing"),
    ]
    sections = package_sections(packages)
    assert sections["Required packages"] == {"torch": "2.9 works"}
    optional = sections["Optional packages"]
    assert optional["fastapi"] == "0.1 works [web]"
    assert "is broken (ImportError: no symbol)" in optional["onnx"]
    assert 'pip install "solar-retrieval[dask]"' in sections["Missing extras"]["dask"]
    assert "cluster" in sections["Missing extras"]["dask"]
    assert problems(packages, Attempt(True)) == []


@pytest.mark.parametrize(
    ("package", "words"),
    [
        (Package("faiss-cpu", "", "", "", "missing"), "pip install solar-retrieval"),
        (
            Package("numpy", "", "", "2.0", "broken", "ImportError: x"),
            "(ImportError: x): pip install --force-reinstall numpy",
        ),
    ],
)
def test_a_needed_package_that_is_broken_is_the_first_problem(package: Package, words: str) -> None:
    cause, effect = problems([TORCH, package], Attempt(False, "No luck."))
    assert cause.startswith(package.name)
    assert words in cause
    assert effect.endswith("No luck.")


def test_a_card_that_torch_was_not_built_for_is_pointed_out() -> None:
    rows = device_rows(Attempt(True, value=DEVICES), [CARD])
    assert "built without CUDA" in rows["cuda"]
    assert rows["card 0"] == CARD


def test_a_card_in_use_is_described() -> None:
    found = {**DEVICES, "gpus": [GPU], "cuda": "13.0", "used": "cuda"}
    rows = device_rows(Attempt(True, value=found), [CARD])
    assert rows["cuda:0"] == "Toy 9000, 8.0 GiB, compute capability 9.0, CUDA 13.0"
    assert rows["by default"] == "cuda"
    assert rows["cpu"] == "AVX2, 2 threads"


def test_a_torch_that_does_not_import_hides_no_card() -> None:
    assert device_rows(Attempt(False, "ImportError: x"), [CARD]) == {
        "broken": "ImportError: x",
        "card 0": CARD,
    }


def test_a_needed_package_that_tells_the_cache_folder_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> None:
        raise ImportError("No module named 'platformdirs'")

    monkeypatch.setattr(files, "cache_directory", missing)
    report = examine(quick=True)
    assert report.sections["Models and cache"] == {"cache": "could not be examined"}
    json.dumps(report.to_json())


def _entry(name: str, **facts: Any) -> zoo.NamedModel:
    return replace(zoo.find("solar-r101"), name=name, file=f"{name}.pth", **facts)


def test_models_are_bundled_lacking_downloaded_or_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [_entry("a", bundled=True), _entry("b", bundled=True), _entry("c"), _entry("d")]
    box, cache = tmp_path / "box", tmp_path / "cache"
    for file in (box / "a.pth", cache / "c.pth"):
        file.parent.mkdir()
        file.touch()
    monkeypatch.setenv("SOLAR_CACHE", str(cache))
    monkeypatch.setattr("solar.weights.FOLDER", box)
    monkeypatch.setattr(zoo, "models", lambda: tuple(entries))
    rows = examine(quick=True).sections["Models and cache"]
    assert (rows["bundled"], rows["downloaded"]) == ("a", "c")
    assert rows["lacking"].startswith("b:")
    assert rows["available"].startswith("1 ")


def test_in_haste_nothing_heavy_is_imported() -> None:
    code = "import sys; from solar.doctor import examine; examine(quick=True).to_text(); "
    code += "sys.exit(' '.join({'torch', 'numpy', 'PIL', 'cv2', 'faiss'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert done.stderr.strip() == ""


PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
# For developers of solar.
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
