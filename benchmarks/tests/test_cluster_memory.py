import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_in_the_documentation_is_what_the_command_prints() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "cluster_memory.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert printed in (ROOT / "docs" / "milvus.md").read_text(encoding="utf-8")
