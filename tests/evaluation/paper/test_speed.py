from pathlib import Path

import pytest
import torch
from support.drawn import drawn_checkpoint

from solar.errors import SolarError
from solar.evaluation.paper.speed import measure_speed, to_json, to_table
from solar.evaluation.table_text import to_text
from solar.models import RetrievalConfig, RetrievalNet


def test_a_model_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    net = RetrievalNet(RetrievalConfig("resnet18"))
    torch.save(drawn_checkpoint(net), tmp_path / "model.pth")
    found = measure_speed(
        str(tmp_path / "model.pth"), name="mine", size=64, scales=(1.0,), device="cpu", runs=2
    )
    assert (found.name, found.size, found.scales, found.runs) == ("mine", 64, (1.0,), 2)
    assert found.parameters == sum(parameter.numel() for parameter in net.parameters())
    assert found.descriptors == 1_001_001 * 512 * 4
    assert found.seconds > 0
    assert found.peak > 4 * found.parameters  # the weights alone
    *_, line, note = to_text(to_table([found])).splitlines()
    assert line.split()[1] == "mine"
    assert note.startswith("Published rows first")
    assert to_json([found])["measured"][0]["seconds"] == found.seconds


def test_a_model_that_is_not_there_is_told_in_a_sentence() -> None:
    with pytest.raises(SolarError, match=r"none\.pth"):
        measure_speed("none.pth")
