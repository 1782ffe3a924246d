"""README's Python is accepted by a strict type checker, and so are other ways to load."""

import subprocess
import sys
from pathlib import Path

from support.code_blocks import REPOSITORY, blocks

MORE = """
import numpy as np
from pathlib import Path

large: solar.RetrievalNet = solar.load("solar-r101", device="cpu")
patches: solar.PatchNet = solar.load("solar-local-345")
mine: solar.RetrievalNet = solar.load(Path("mine.safetensors"))
solar.load("mine.safetensors").describe("a.jpg")
with open("a.jpg", "rb") as file:
    large.encode(file)
large.describe(np.zeros((8, 8, 3), np.uint8))
large.describe([b"", Path("a.jpg"), large.transforms("a.jpg")])
"""
WRONG = """
solar.load("solar-local-345").describe("a.jpg")
large.describe(7)
"""


def test_the_snippet_of_the_readme_passes_a_strict_type_checker(tmp_path: Path) -> None:
    [snippet] = [b.code for b in blocks(REPOSITORY / "README.md") if b.language == "python"]
    assert "model = solar.load()" in snippet
    good = snippet + MORE
    (tmp_path / "snippet.py").write_text(good + WRONG, encoding="utf-8")
    done = subprocess.run(
        # Where solar was checked just before, its own modules are not checked again.
        [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "snippet.py")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    told = [line for line in done.stdout.splitlines() if ": error: " in line]
    wrong = [len(good.splitlines()) + number for number in (2, 3)]
    assert [int(line.split(":")[1]) for line in told] == wrong, done.stdout + done.stderr
