"""The site, for the tests that look at it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once even where several processes test."""
    ours = tmp_path_factory.getbasetemp()
    shared = ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours
    with FileLock(shared / "site.lock"):
        if not (shared / "site" / "index.html").exists():
            build(shared / "site")
    return shared / "site"


def build(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
