import pytest
import torch
from support.drawn import drawn_retrieval

from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet
from solar.training.augment import Augmentation
from solar.training.network import parameter_groups, set_training
from solar.training.retrieval_recipe import Compute, Optimiser
from solar.training.trainable import TrainableNet


def learner(**trunk: float) -> RetrievalNet:
    """A network with drawn weights of which attention, pooling and whitening learn."""
    net = drawn_retrieval(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))
    settings = Optimiser(trunk=trunk)
    parameter_groups(net, settings)
    set_training(net, settings)
    return net


def photos(count: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (count, 64, 96, 3), dtype=torch.uint8, generator=generator)


def gradients(net: RetrievalNet, settings: Compute) -> dict[str, torch.Tensor]:
    net.zero_grad(set_to_none=True)
    rows = TrainableNet(net, settings)([photos()])
    (rows * torch.linspace(-1, 1, rows.numel()).view_as(rows)).sum().backward()
    return {n: p.grad.clone() for n, p in net.named_parameters() if p.grad is not None}


def test_a_plain_trainee_is_the_network() -> None:
    net = learner()
    with torch.no_grad():
        expected = net(net.normalise(photos()))
        got = TrainableNet(net, Compute(frozen_batch=8))([photos()])
    assert torch.equal(got, expected)


@pytest.mark.parametrize(
    "settings",
    [
        Compute(fused="yes"),
        Compute(checkpoint=True),
        Compute(fused="yes", checkpoint=True),
        Compute(channels_last="yes"),
    ],
)
@pytest.mark.parametrize("trunk", [{}, {"layer4": 1.0}])
def test_every_way_gives_the_same_gradients(settings: Compute, trunk: dict[str, float]) -> None:
    net = learner(**trunk)
    plain, other = gradients(net, Compute()), gradients(net, settings)
    assert plain.keys() == other.keys()
    for name, gradient in plain.items():
        assert torch.allclose(gradient, other[name], rtol=1e-3, atol=1e-5 * gradient.abs().max()), (
            name
        )


def test_nothing_frozen_gets_a_gradient() -> None:
    names = gradients(learner(), Compute()).keys()
    assert {name for name in names if name.startswith("backbone")} == {
        name for name in names if name.startswith("backbone.soa")
    }


def test_the_trunk_before_attention_keeps_nothing_for_the_backward_pass() -> None:
    net = learner()
    kept: list[torch.Size] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.shape)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        TrainableNet(net, Compute())([photos()])
    # Maps of conv4_x have 4×6 locations; those of the parts before have 8×12 and more.
    earlier = {(8, 12), (16, 24), (32, 48), (64, 96)}
    assert kept
    assert not [shape for shape in kept if tuple(shape[-2:]) in earlier]


def test_groups_of_several_shapes_come_out_in_order() -> None:
    trainee = TrainableNet(learner(), Compute())
    one, other = photos(1), photos(2)[:, :, :64]
    with torch.no_grad():
        together = trainee([one, other])
        assert torch.equal(together, torch.cat([trainee([one]), trainee([other])]))


def test_augmentation_happens_only_with_a_generator() -> None:
    trainee = TrainableNet(learner(), Compute(), Augmentation(flip=1.0))
    with torch.no_grad():
        plain = trainee([photos()])
        flipped = trainee([photos()], torch.Generator().manual_seed(0))
        by_hand = trainee([photos().flip(2)])
    assert torch.allclose(flipped, by_hand, atol=1e-4)
    assert not torch.allclose(plain, flipped, atol=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_half_precision_without_a_gpu_is_refused() -> None:
    with pytest.raises(SolarError, match="for GPUs"):
        TrainableNet(learner(), Compute(precision="bf16"))
