"""How much `import solar` and `solar --help` bring along."""

import subprocess
import sys

import pytest

IMPORT = "import solar"
HELP = "import sys; sys.argv = ['solar', '--help']; from solar.cli import main; main()"
HEAVY = {"torch", "numpy", "faiss", "PIL", "safetensors", "cv2", "sqlite3", "ssl", "asyncio"}


def _imported(code: str) -> set[str]:
    """The modules in memory when a program ends."""
    ending = "import atexit, sys\nsay = sys.stderr.write\n"
    ending += "atexit.register(lambda: say('\\n'.join(sys.modules)))\n"
    done = subprocess.run([sys.executable, "-c", ending + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split("\n"))


@pytest.mark.parametrize("code", [IMPORT, HELP], ids=["import", "help"])
def test_nothing_heavy_comes_along(code: str) -> None:
    imported = _imported(code)
    assert "solar" in imported
    assert not imported & HEAVY


def test_importing_solar_needs_nothing_but_python() -> None:
    assert not _imported(IMPORT) & {"typer", "rich", "platformdirs", "filelock"}
    ours = {name for name in _imported(IMPORT) if name.startswith("solar")}
    assert ours == {"solar", "solar.lazy"}
