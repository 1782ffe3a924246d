import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from solar.doctor import Report, examine
from solar.doctor.packages import FoundPackage
from solar.doctor.probe import Attempt
from solar.models import zoo

GPU = {"name": "Toy 9000", "memory": 8 * 2**30, "capability": "9.0"}
DEVICES = {
    "used": "cpu",
    "cpu": "AVX2",
    "threads": 2,
    "cuda": None,
    "gpus": [],
}
SOUND = Report(
    machine={
        "system": "Toy 1.0",
        "processor": "Abacus",
        "cores": [2, 4],
        "memory": 2**30,
        "memory_free": 2**29,
        "nvidia": [],
    },
    settings={"SOLAR_OFFLINE": "1"},
    packages=(
        FoundPackage("torch", "", "2.9", "works"),
        FoundPackage("dask", "dask", "", "missing"),
        FoundPackage("fastapi", "web", "0.1", "works"),
    ),
    cache={
        "path": "~/.cache/solar",
        "files": 2,
        "size": 3 * 2**20,
        "free": 5 * 2**30,
        "problem": "",
    },
    models={
        "bundled": ["solar-r18"],
        "lacking": [],
        "downloaded": ["solar-r101"],
        "available": ["gem-r101-gl18", "solar-r101-gldv2"],
    },
    devices=Attempt(True, value=DEVICES),
    formats=Attempt(True, value=["JPEG", "WebP"]),
    self_test=Attempt(True, value="FoundPackage it."),
)


@pytest.mark.parametrize(
    "words",
    [
        "processor      Abacus, 2 of 4 cores",
        "memory         1.0 GiB, 512 MiB free",
        "SOLAR_OFFLINE  1",
        "cpu         AVX2, 2 threads",
        "torch 2.9  works",
        "fastapi 0.1  works [web]",
        'pip install "solar-retrieval[dask]" (installs dask)',
        "bundled     solar-r18",
        "downloaded  solar-r101",
        "available   2 more: `solar models`",
        "~/.cache/solar: 2 files, 3 MiB, 5.0 GiB free, writable",
        "works   FoundPackage it.",
        "photos  JPEG, WebP",
    ],
)
def test_the_text_tells_what_was_found(words: str) -> None:
    assert words in SOUND.to_text()


def test_what_is_sound_has_no_problems() -> None:
    assert SOUND.problems == []
    assert SOUND.to_json()["works"]


def test_a_missing_optional_package_is_no_problem_but_told() -> None:
    [dask] = SOUND.to_json()["missing"]
    assert dask["install"] == 'pip install "solar-retrieval[dask]"'
    assert "cluster" in dask["for"]


def test_a_broken_optional_package_is_told_with_its_words() -> None:
    broken = FoundPackage("onnx", "export", "1.17", "broken", "ImportError: no symbol")
    report = replace(SOUND, packages=(*SOUND.packages, broken))
    assert report.problems == []
    assert "onnx 1.17    is broken (ImportError: no symbol)" in report.to_text()


@pytest.mark.parametrize(
    ("package", "sentence"),
    [
        (
            FoundPackage("faiss-cpu", "", "", "missing"),
            "faiss-cpu is missing: pip install solar-retrieval.",
        ),
        (
            FoundPackage("numpy", "", "2.0", "broken", "ImportError: x"),
            "numpy is broken (ImportError: x): pip install --force-reinstall numpy.",
        ),
    ],
)
def test_a_needed_package_that_is_broken_is_a_problem(package: FoundPackage, sentence: str) -> None:
    report = replace(SOUND, packages=(package,), self_test=Attempt(False, "ImportError: x"))
    assert report.problems[0] == sentence
    assert not report.to_json()["works"]


def test_a_failed_self_test_is_a_problem() -> None:
    [problem] = replace(SOUND, self_test=Attempt(False, "No luck.")).problems
    assert problem == "The self-test failed: No luck."


def test_a_card_that_torch_was_not_built_for_is_pointed_out() -> None:
    report = replace(SOUND, machine={**SOUND.machine, "nvidia": ["Toy 9000, driver 1.2"]})
    assert "this torch was built without CUDA" in report.to_text()
    assert "Toy 9000, driver 1.2" in report.to_text()


def test_a_card_in_use_is_described() -> None:
    found = {**DEVICES, "gpus": [GPU], "cuda": "13.0", "used": "cuda"}
    text = replace(SOUND, devices=Attempt(True, value=found)).to_text()
    assert "cuda:0      Toy 9000, 8.0 GiB, compute capability 9.0, CUDA 13.0" in text


def test_a_cache_that_cannot_be_written_is_pointed_out() -> None:
    assert SOUND.cache is not None
    report = replace(SOUND, cache={**SOUND.cache, "problem": "Read-only file system"})
    assert "cannot be written (Read-only file system)" in report.to_text()


def test_a_model_that_the_installation_lacks_is_pointed_out() -> None:
    models = {**SOUND.models, "bundled": [], "lacking": ["solar-r18"]}
    assert "lacking     solar-r18: install solar again" in replace(SOUND, models=models).to_text()


def test_a_needed_package_that_tells_the_cache_folder_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> None:
        raise ImportError("No module named 'platformdirs'")

    monkeypatch.setattr(zoo, "cache_directory", missing)
    report = examine(quick=True)
    assert report.cache is None
    assert "could not be examined" in report.to_text()
    json.dumps(report.to_json())


def test_in_haste_nothing_heavy_is_imported() -> None:
    code = "import sys; from solar.doctor import examine; examine(quick=True).to_text(); "
    code += "sys.exit(' '.join({'torch', 'numpy', 'PIL', 'cv2', 'faiss'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert done.stderr.strip() == ""


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
    assert examine(quick=True).models == {
        "bundled": ["a"],
        "lacking": ["b"],
        "downloaded": ["c"],
        "available": ["d"],
    }
