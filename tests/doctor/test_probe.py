from pathlib import Path

import pytest

from solar.doctor.probe import attempt

MODULES = {
    "raises": "raise ValueError('no\\nluck')",
    "leaves": "raise SystemExit(0)",
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "ends": "import os; os._exit(3)",
    "hangs": "import threading; threading.Event().wait()",
    "talks": "print('hello')",
    "counts": "def two():\n    return 2",
    "shouts": f"raise RuntimeError({'a' * 1000!r})",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in MODULES.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)


def test_every_task_is_answered_whatever_the_one_before_it_did() -> None:
    answers = attempt(["raises", "talks", "dies", "leaves", "ends", "counts:two"])
    assert {task for task, answer in answers.items() if answer.works} == {"talks", "counts:two"}
    assert answers["counts:two"].value == 2


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("raises", "ValueError: no luck"),
        ("leaves", "SystemExit: 0"),
        ("dies", "it ended the process with SIGKILL"),
        ("ends", "it ended the process with exit code 3"),
        ("counts:three", "AttributeError: module 'counts' has no attribute 'three'"),
        ("no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_failure_is_told_in_one_line(task: str, why: str) -> None:
    assert attempt([task])[task].text == why


def test_a_long_complaint_is_cut() -> None:
    assert len(attempt(["shouts"])["shouts"].text) < 400


def test_what_hangs_is_given_up() -> None:
    assert attempt(["hangs"], seconds=1)["hangs"].text == "it did not finish within 1 s"
