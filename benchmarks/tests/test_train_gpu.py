import json
import os
import subprocess
from pathlib import Path

import pytest
from support.running import python

ROOT = Path(__file__).parents[2]


def test_the_benchmark_runs_small_and_every_way_gives_the_plain_loss(tmp_path: Path) -> None:
    options = ["--size=64", "--tuples=2", "--negatives=2", "--rounds=1", "--backbone=resnet18"]
    script = ROOT / "benchmarks" / "train_gpu.py"
    subprocess.run(
        [*python(), script, *options, "--out", tmp_path / "out.json"],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    found = json.loads((tmp_path / "out.json").read_text())
    ways = [value for name, value in found.items() if name.startswith("ours")]
    assert len(ways) == 5
    for way in ways:
        assert way["loss_difference"] == pytest.approx(0, abs=1e-4)
        assert way["smallest_cosine"] > 0.9999
