import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.drawn import drawn_retrieval

from solar.models import RetrievalConfig, RetrievalNet
from solar.training.augment import Augmentation
from solar.training.retrieval.frozen_front import TrainableNet
from solar.training.retrieval.parameter_groups import parameter_groups
from solar.training.retrieval.recipe import RetrievalCompute, RetrievalOptimiser


def learner(**backbone: float) -> RetrievalNet:
    """A network with drawn weights of which attention, pooling and whitening learn."""
    net = drawn_retrieval(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))
    parameter_groups(net, RetrievalOptimiser(backbone=backbone))
    return net.train()


def photos(count: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (count, 64, 96, 3), dtype=torch.uint8, generator=generator)


def gradients(net: RetrievalNet, settings: RetrievalCompute) -> dict[str, torch.Tensor]:
    net.zero_grad(set_to_none=True)
    rows = TrainableNet(net, settings)([photos()])
    (rows * torch.linspace(-1, 1, rows.numel()).view_as(rows)).sum().backward()
    return {n: p.grad.clone() for n, p in net.named_parameters() if p.grad is not None}


def test_a_plain_trainable_is_the_network() -> None:
    net = learner()
    with torch.no_grad():
        expected = net(net.normalise(photos()))
        got = TrainableNet(net, RetrievalCompute(frozen_batch=8))([photos()])
    assert torch.equal(got, expected)


@pytest.mark.parametrize(
    "settings",
    [
        RetrievalCompute(fused="yes"),
        RetrievalCompute(checkpoint=True),
        RetrievalCompute(fused="yes", checkpoint=True),
    ],
)
@pytest.mark.parametrize("backbone", [{}, {"layer4": 1.0}])
def test_every_way_gives_the_same_gradients(
    settings: RetrievalCompute, backbone: dict[str, float]
) -> None:
    net = learner(**backbone)
    plain, other = gradients(net, RetrievalCompute()), gradients(net, settings)
    assert plain.keys() == other.keys()
    for name, gradient in plain.items():
        assert torch.allclose(gradient, other[name], rtol=1e-3, atol=1e-5 * gradient.abs().max()), (
            name
        )


def test_nothing_frozen_gets_a_gradient() -> None:
    names = gradients(learner(), RetrievalCompute()).keys()
    assert {name for name in names if name.startswith("backbone")} == {
        name for name in names if name.startswith("backbone.soa")
    }


def test_the_backbone_before_attention_keeps_nothing_for_the_backward_pass() -> None:
    net = learner()
    kept: list[torch.Size] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.shape)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        TrainableNet(net, RetrievalCompute())([photos()])
    # Maps of conv4_x have 4×6 locations; those of the parts before have 8×12 and more.
    earlier = {(8, 12), (16, 24), (32, 48), (64, 96)}
    assert kept
    assert not [shape for shape in kept if tuple(shape[-2:]) in earlier]


def test_groups_of_several_shapes_come_out_in_order() -> None:
    trainable = TrainableNet(learner(), RetrievalCompute())
    one, other = photos(1), photos(2)[:, :, :64]
    with torch.no_grad():
        together = trainable([one, other])
        assert torch.equal(together, torch.cat([trainable([one]), trainable([other])]))


def test_augmentation_happens_only_with_a_generator() -> None:
    trainable = TrainableNet(learner(), RetrievalCompute(), Augmentation(flip=1.0))
    with torch.no_grad():
        plain = trainable([photos()])
        flipped = trainable([photos()], torch.Generator().manual_seed(0))
        by_hand = trainable([photos().flip(2)])
    assert torch.allclose(flipped, by_hand, atol=1e-4)
    assert not torch.allclose(plain, flipped, atol=1e-3)


IN_HALF = """
import sys
sys.path.insert(0, sys.argv[1])
from test_frozen_front import *
net = learner(layer4=1.0)
plain, *halves = (
    TrainableNet(net, RetrievalCompute(precision=precision, fused=fused))([photos()])
    for precision, fused in (("float32", "no"), ("bf16", "no"), ("bf16", "yes"))
)
for half in halves:
    assert half.dtype == torch.float32
    assert not torch.equal(half, plain)
    assert (half * plain).sum(1).min() > 0.99
    half.sum().backward()
"""


def test_half_precision_on_a_cpu_is_close_to_float32_where_it_is_asked_for() -> None:
    # Some processors advertise bfloat16 and end a process that computes with it.
    run = subprocess.run(
        [sys.executable, "-c", IN_HALF, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if run.returncode == -signal.SIGILL:
        pytest.skip("this processor does not compute in bfloat16")
    assert run.returncode == 0, run.stderr
