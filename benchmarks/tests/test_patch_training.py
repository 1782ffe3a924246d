import json
import os
import subprocess
from pathlib import Path

import pytest
from support.running import python

from solar.models import PatchNet, load

ROOT = Path(__file__).parents[2]


def test_one_command_trains_twins_and_matches(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *python(), str(ROOT / "benchmarks" / "patch_training.py"), "--smoke",
            "--seeds", "1", "--curve", "1", "--set", "compute.device=cpu",
            "--out", str(tmp_path / "out"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(results["baselines"]) == {"sift", "rootsift"}
    assert [(one["network"], one["seed"]) for one in results["runs"]] == [("345", 0), ("none", 0)]
    gain = results["runs"][0]["mAP"] - results["runs"][1]["mAP"]
    assert results["summary"]["345"]["attention_gain"] == pytest.approx(gain)
    net = load(tmp_path / "out" / "345-seed0.safetensors", device="cpu")
    assert isinstance(net, PatchNet)
    assert set(net.config.attention) == {3, 4, 5}
    assert "rootsift" in done.stdout
