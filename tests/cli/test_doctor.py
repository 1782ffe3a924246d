import json
from pathlib import Path

import pytest
from support.running import solar


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody's home, with the cache in it."""
    home = tmp_path / "ada-lovelace"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SOLAR_CACHE", str(home / "cache"))
    return home


def _shadow(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Put modules in front of installed ones."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")


def test_everything_that_solar_needs_works_here(home: Path) -> None:
    done = solar("doctor", "--json", fresh=True)
    report = json.loads(done.stdout)
    assert report["works"], report["problems"]
    assert all(state.endswith(" works") for state in report["Required packages"].values())
    assert report["Self-test"]["works"]
    assert "threads" in report["Devices"]["cpu"]
    assert report["Models and cache"]["cache"].startswith("~/cache:")
    assert home.name not in done.stdout


def test_a_broken_package_is_one_sentence_and_the_others_are_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = ("distributed", "matplotlib", "onnx", "onnxscript", "pyarrow", "pycolmap", "pymilvus")
    slow += ("sklearn", "tensorboard", "torchvision")  # the test above loads them
    _shadow(
        home,
        monkeypatch,
        **dict.fromkeys(slow, ""),
        filelock=f"raise OSError('{home}/x.so: no such symbol')",
        onnxruntime="import os; os._exit(9)",
        openvino="raise SystemExit",
    )
    done = solar("doctor", expect=2, fresh=True)
    why = "filelock is broken (OSError: ~/x.so: no such symbol): pip install --force-reinstall"
    assert done.stderr.startswith(f"solar: {why}")
    assert done.stderr.count("\n") == 1
    assert "numpy" in done.stdout
    assert "is broken (it ended the process with exit code 9)" in done.stdout
    assert "is broken (SystemExit)" in done.stdout
    assert home.name not in done.stdout + done.stderr


def test_in_haste_nothing_is_tried_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _shadow(home, monkeypatch, pillow_heif="raise ValueError")
    out = solar("doctor", "--quick", fresh=True).stdout
    assert out.startswith("solar 1.")
    assert "leave out --quick" in out
    assert "broken" not in out
