import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from support.drawn import drawn_retrieval

from solar.models import RetrievalConfig, RetrievalNet
from solar.nn import Backbone

PHOTO = np.random.default_rng(0).integers(0, 256, (72, 96, 3), dtype=np.uint8)
SCALES = (1.0, 0.7)


@pytest.fixture
def net() -> RetrievalNet:
    """With weights and batch norms like those of a trained one."""
    return drawn_retrieval(RetrievalConfig("resnet18", attention={5: 2}, scales=SCALES))


@pytest.fixture
def fusings(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one with every fused copy that is made."""
    made: list[None] = []
    fuse = Backbone.fuse
    monkeypatch.setattr(
        Backbone, "fuse", lambda self, **how: (made.append(None), fuse(self, **how))[1]
    )
    return made


def plain(net: RetrievalNet) -> np.ndarray:
    return net.describe(PHOTO, forward=net.forward_scale)


def test_photos_are_described_by_one_fused_copy(net: RetrievalNet, fusings: list[None]) -> None:
    [row], [same] = net.describe(PHOTO), net.describe(PHOTO)
    np.testing.assert_allclose(row, plain(net)[0], atol=1e-6)
    assert np.array_equal(row, same)
    assert len(fusings) == 1
    assert not any("_fused" in name for name in net.state_dict())


def loaded(net: RetrievalNet) -> None:
    other = RetrievalNet(net.config)
    net.load_state_dict(other.state_dict())


def stepped(net: RetrievalNet) -> None:
    with torch.no_grad():
        net.backbone.layer4[1].conv2.weight.sub_(0.01)  # as optimizers do


def written_to(net: RetrievalNet) -> None:
    net.backbone.layer4[1].conv2.weight.data.mul_(-1)  # which counts no version up


def replaced(net: RetrievalNet) -> None:
    net.backbone.conv1.weight = torch.nn.Parameter(torch.rand_like(net.backbone.conv1.weight) - 0.5)


def moved_statistics(net: RetrievalNet) -> None:
    net.backbone.layer4[1].bn2.running_mean[:99] -= 5


@pytest.mark.parametrize("change", [loaded, stepped, written_to, replaced, moved_statistics])
def test_weights_that_changed_are_fused_again(
    net: RetrievalNet, fusings: list[None], change: Callable[[RetrievalNet], None]
) -> None:
    before = net.describe(PHOTO)
    change(net)
    after = net.describe(PHOTO)
    np.testing.assert_allclose(after, plain(net), atol=1e-6)
    assert not np.allclose(before, after, atol=1e-5)
    assert len(fusings) == 2


def test_what_trains_is_watched_or_is_not_float32_runs_plainly(
    net: RetrievalNet, fusings: list[None]
) -> None:
    seen: list[object] = []
    handle = net.backbone.layer3.register_forward_hook(lambda *given: seen.append(given))
    net.describe(PHOTO)
    assert len(seen) == len(SCALES)
    handle.remove()
    net.train().describe(PHOTO)
    assert net.training
    net.eval().double().float().describe(PHOTO)
    assert len(fusings) == 1


def test_copies_begin_without_one(net: RetrievalNet) -> None:
    row = net.describe(PHOTO)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), net.with_adaptation(None)):
        assert other._fused._made is None
        np.testing.assert_array_equal(other.describe(PHOTO), row)
