import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.evaluate_networks import network

import solar
from solar.errors import SolarError
from solar.evaluation.paper import sweep
from solar.evaluation.table_text import to_text
from solar.models import RetrievalNet
from solar.nn.fused import FusedStem

EXPONENTS = (1.0, 2.5, 8.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention": {4: 4, 5: 2}},
        {"whitening": False, "dim": None},  # scales are averaged with the power p
        {"regional": True},
        {"pooling": "gemmp"},
    ],
    ids=["attention", "plain", "regional", "one a channel"],
)
def test_a_sweep_equals_evaluating_with_each_exponent(truth: Path, changes: dict) -> None:
    net = network(**changes)
    found = sweep.sweep_p(truth, net, EXPONENTS)
    for p in EXPONENTS:
        gem = net.pool.pool if changes.get("regional") else net.pool
        before = gem.p.detach().clone()
        with torch.no_grad():
            gem.p.fill_(p)
        alone = solar.evaluate(truth, model=net)
        with torch.no_grad():
            gem.p.copy_(before)
        for level, measures in alone.protocols.items():
            for name, values in measures.items():
                np.testing.assert_array_equal(found.evaluations[p].protocols[level][name], values)


def test_the_backbone_runs_once_per_photo_and_scale(
    truth: Path, tiny: RetrievalNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    forward = FusedStem.forward

    def counted(self: FusedStem, images: torch.Tensor) -> torch.Tensor:
        ran.append(len(images))
        return forward(self, images)

    monkeypatch.setattr(FusedStem, "forward", counted)
    sweep.sweep_p(truth, tiny, EXPONENTS)
    assert sum(ran) == (9 + 3) * 2  # photos of the database and queries, two scales


def test_the_learnt_exponent_is_measured_too(truth: Path, tiny: RetrievalNet) -> None:
    found = sweep.sweep_p(truth, tiny, (1.0, 5.0), name="tiny")
    assert list(found.evaluations) == [1.0, 3.0, 5.0]
    assert (found.model, found.learnt) == ("tiny", 3.0)
    assert found.evaluations[3.0].to_dict() == solar.evaluate(truth, model=tiny).to_dict()


def test_the_model_is_left_as_it_was(truth: Path, tiny: RetrievalNet) -> None:
    tiny.train()
    sweep.sweep_p(truth, tiny, (1.0,))
    assert tiny.training
    assert tiny.pool.p.item() == 3.0
    tiny.eval()


def test_what_is_described_is_kept(truth: Path, tiny: RetrievalNet, tmp_path: Path) -> None:
    how = {"cache": tmp_path}
    first = sweep.sweep_p(truth, tiny, EXPONENTS, **how)
    described: list[str] = []
    again = sweep.sweep_p(
        truth, tiny, EXPONENTS, **how, progress=lambda step, *_: described.append(step)
    )
    assert "Describing" not in described
    for p in EXPONENTS:
        assert again.evaluations[p].to_dict() == first.evaluations[p].to_dict()


def test_photos_out_of_range_rank_last_and_are_counted(truth: Path) -> None:
    net = network(whitening=False, dim=None)
    with torch.no_grad():
        for block in net.backbone.layer4:
            block.bn2.weight.mul_(10)
    exponents = [1.0, 3.0, 15.0, 17.0, 19.0, 21.0, 23.0, 100.0]
    found = sweep.sweep_p(truth, net, exponents, name="steep")
    assert list(found.evaluations) == exponents
    counts = [found.out_of_range.get(p, 0) for p in exponents]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2  # at some exponents a part of the photos
    assert (counts[0], counts[-1]) == (0, 12)
    text = to_text(sweep.to_table({"toy": [found]}))
    assert "12 of steep on toy at p = 100" in text
    assert sweep.to_json({"toy": [found]})["toy"]["steep"]["sweep"][-1]["out_of_range"] == 12


def test_the_table_marks_what_was_learnt(truth: Path, tiny: RetrievalNet) -> None:
    sweeps = {"toy": [sweep.sweep_p(truth, tiny, (1.0,), name="tiny")]}
    lines = to_text(sweep.to_table(sweeps)).splitlines()
    assert [line.split()[0] for line in lines[4:6]] == ["1", "3*"]
    found = json.loads(json.dumps(sweep.to_json(sweeps)))["toy"]["tiny"]
    assert found["learnt"] == 3.0
    assert [row["p"] for row in found["sweep"]] == [1.0, 3.0]
    assert lines[4].split()[1:] == [
        f"{found['sweep'][0][level]['mAP']:.2f}" for level in ("easy", "medium", "hard")
    ]


def test_nothing_to_sweep_is_told(truth: Path, tiny: RetrievalNet) -> None:
    with pytest.raises(SolarError, match="mac"):
        sweep.sweep_p(truth, network(pooling="mac"))
    with pytest.raises(SolarError, match="positive"):
        sweep.sweep_p(truth, tiny, (1.0, -2.0))
