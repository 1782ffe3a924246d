"""The last layer of the bundled network: what `benchmarks/box_layer.py` trains."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.drawn import drawn_retrieval

from solar.models import RetrievalConfig

ROOT = Path(__file__).parents[2]


@pytest.fixture
def box_layer(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import box_layer

    monkeypatch.setattr(box_layer, "STEPS", 100)
    monkeypatch.setattr(box_layer, "RATE", 1e-2)
    return box_layer


def test_a_layer_tells_places_apart_that_it_has_not_seen(box_layer: Any) -> None:
    chance = torch.Generator().manual_seed(0)
    place = torch.arange(60).repeat_interleave(6)
    # What tells places apart is in the first half; light and weather, louder, in the second.
    own = torch.randn(60, 16, generator=chance)[place]
    weather = 2 * torch.randn(len(place), 16, generator=chance)
    rows = F.normalize(torch.cat([own, weather], dim=1))
    kinds = ["train/", "seq/"]
    labels = [f"{kinds[n % 2]}{n}" if n < 30 else "" for n in place.tolist()]
    matrix = box_layer.trained(rows, labels, 0)
    assert torch.equal(matrix, box_layer.trained(rows, labels, 0))
    assert not torch.equal(matrix, box_layer.trained(rows, labels, 1))

    unseen, shown = rows[place >= 30], place[place >= 30]

    def found(x: torch.Tensor) -> float:
        similarity = (x @ x.T).fill_diagonal_(-1)
        return (shown[similarity.argmax(1)] == shown).float().mean().item()

    assert found(F.normalize(unseen @ matrix.T)) > found(unseen) + 0.15


def test_a_matrix_is_folded_into_the_whitening(box_layer: Any) -> None:
    net = drawn_retrieval(RetrievalConfig("resnet18", whitening=True))
    matrix = torch.randn(512, 512)
    layer = box_layer.folded(net, matrix)
    rows = torch.randn(4, 512)
    assert net.whiten is not None
    assert torch.allclose(layer(rows), net.whiten(rows) @ matrix.T, atol=1e-3)
