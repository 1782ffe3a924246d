from pathlib import Path

import pytest
import torch
from support import tiny_transformers
from torch import nn

import solar
from solar.errors import SolarError
from solar.models import REDUCTIONS, RetrievalConfig, RetrievalNet, attention_at
from solar.nn import GeM
from solar.training.retrieval.parameter_groups import parameter_groups
from solar.training.retrieval.recipe import NetworkStart, RetrievalOptimiser
from solar.training.retrieval.start import build_network

PUBLISHED = RetrievalOptimiser()


@pytest.fixture(scope="module")
def gem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network without attention, whose exponent has been trained."""
    torch.manual_seed(1)
    net = RetrievalNet(RetrievalConfig("resnet18"))
    assert isinstance(net.pool, GeM)
    nn.init.constant_(net.pool.p, 2.5)
    return solar.save(net, tmp_path_factory.mktemp("gem") / "gem.safetensors")


@pytest.fixture
def net() -> RetrievalNet:
    return RetrievalNet(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))


def test_groups_are_the_published_ones(net: RetrievalNet) -> None:
    groups = parameter_groups(net, PUBLISHED)
    assert [(g["name"], g["lr"], g["weight_decay"]) for g in groups] == [
        ("soa4", 1e-6, 1e-6),
        ("soa5", 1e-6, 1e-6),
        ("pool", pytest.approx(1e-4, rel=1e-12), 0.0),
        ("whiten", 1e-6, 1e-6),
    ]
    learning = {name for name, p in net.named_parameters() if p.requires_grad}
    assert {name.rpartition("soa")[0] for name in learning if "soa" in name} == {"backbone."}
    assert {name for name in learning if "soa" not in name} == {
        "pool.p",
        "whiten.weight",
        "whiten.bias",
    }


def test_the_optimiser_is_adam_with_plain_weight_decay(net: RetrievalNet) -> None:
    optimiser = PUBLISHED.build(parameter_groups(net, PUBLISHED), torch.device("cpu"))
    assert type(optimiser) is torch.optim.Adam
    assert optimiser.defaults["betas"] == (0.9, 0.999)
    assert optimiser.defaults["eps"] == 1e-8


def test_stages_of_the_backbone_can_learn_at_their_own_rate(net: RetrievalNet) -> None:
    groups = parameter_groups(net, RetrievalOptimiser(lr=1.0, backbone={"all": 0.5, "layer4": 0.1}))
    rates = {group["name"]: group["lr"] for group in groups}
    assert rates["stem"] == rates["layer3"] == 0.5
    assert rates["layer4"] == 0.1


def test_an_unknown_stage_is_named(net: RetrievalNet) -> None:
    with pytest.raises(SolarError, match="'conv5'"):
        parameter_groups(net, RetrievalOptimiser(backbone={"conv5": 1}))


def test_nothing_to_learn_is_an_error(net: RetrievalNet) -> None:
    with pytest.raises(SolarError, match="factor"):
        parameter_groups(net, RetrievalOptimiser(attention=0, pooling=0, whitening=0))


def modes(net: RetrievalNet) -> dict[str, set[bool]]:
    found: dict[str, set[bool]] = {}
    for name, module in net.backbone.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            found.setdefault(name.split(".")[0], set()).add(module.training)
    return found


def test_published_training_keeps_every_batch_norm_in_evaluation(net: RetrievalNet) -> None:
    parameter_groups(net, PUBLISHED)
    net.train()
    assert net.training
    assert set().union(*modes(net).values()) == {False}


def test_trained_batch_norms_follow_batches_only_where_something_learns(net: RetrievalNet) -> None:
    settings = RetrievalOptimiser(backbone={"layer4": 1}, batch_norm="trained")
    parameter_groups(net, settings)
    net.train()
    found = modes(net)
    assert found["layer3"] == {False}
    assert found["layer4"] == found["soa5"] == {True}


def test_solar_starts_exactly_at_gem(gem: Path) -> None:
    settings = NetworkStart(backbone="resnet18", attention="45", features=str(gem), p=None,
                       whitening_from="features")  # fmt: skip
    ours, origin = build_network(settings)
    images = torch.rand(2, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    theirs = solar.load(gem, device="cpu")
    assert isinstance(theirs, RetrievalNet)
    with torch.no_grad():
        assert torch.equal(ours.eval()(images), theirs(images))
    assert origin["attention"] == "identity in soa4, soa5"


def test_the_published_start_takes_backbone_and_whitening_from_two_files(
    gem: Path, tmp_path: Path
) -> None:
    layer = nn.Linear(512, 512)
    torch.save({"weight": layer.weight.data, "bias": layer.bias.data}, tmp_path / "whiten.pth")
    net, origin = build_network(
        NetworkStart(
            backbone="resnet18",
            attention="45",
            features=str(gem),
            whitening_from=str(tmp_path / "whiten.pth"),
        )
    )
    source = solar.load(gem, device="cpu")
    assert isinstance(source, RetrievalNet)
    assert torch.equal(net.backbone.conv1.weight, source.backbone.conv1.weight)  # type: ignore[union-attr, arg-type]
    assert isinstance(net.pool, GeM)
    assert net.pool.p.item() == 3.0
    assert net.whiten is not None
    assert torch.equal(net.whiten.weight, layer.weight)
    assert origin["backbone"] == str(gem)
    assert origin["pooling"] == "p = 3"
    assert origin["whitening"].endswith("whiten.pth")


def test_a_whole_network_can_be_gone_on_with_and_given_attention(gem: Path) -> None:
    net, origin = build_network(NetworkStart(start=str(gem), attention="5"))
    assert net.config.attention == {5: 2}
    assert isinstance(net.pool, GeM)
    assert net.pool.p.item() == 2.5
    assert origin["attention"] == "identity in soa5"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"backbone": "resnet34"}, "another backbone"),
        ({"backbone": "resnet18", "whitening_from": "features", "dim": 64}, r"\(64, 512\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    gem: Path, settings: dict[str, object], complaint: str
) -> None:
    with pytest.raises(SolarError, match=complaint):
        build_network(NetworkStart(features=str(gem), **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("layers", ["45", "4", "5", "345"])
def test_frozen_gradients_reach_what_the_paper_trains_and_nothing_else(layers: str) -> None:
    config = RetrievalConfig("resnet18", attention=attention_at(layers, REDUCTIONS))
    net = RetrievalNet(config).train()
    parameter_groups(net, RetrievalOptimiser())
    for block in (m for n, m in net.backbone.named_children() if n.startswith("soa")):
        torch.nn.init.normal_(block.output.weight, std=0.1)  # at zero, nothing before it learns
    net(torch.rand(2, 3, 96, 96)).square().mul(torch.rand(1, 512)).sum().backward()
    learning = {
        n for n, p in net.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0
    }
    frozen = {n for n, p in net.named_parameters() if p.grad is None}
    trained = {
        n for n in dict(net.named_parameters()) if n.startswith(("backbone.soa", "pool", "whiten"))
    }
    assert learning == trained
    assert frozen == set(dict(net.named_parameters())) - trained


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pretrained vision transformer of two layers."""
    return tiny_transformers.write(
        tiny_transformers.model("dinov2"), tmp_path_factory.mktemp("hub") / "dinov2"
    )


def test_a_pretrained_backbone_is_taken_from_its_folder(vit: Path) -> None:
    settings = NetworkStart(backbone=str(vit), attention="4", pooling="cls+gem", dim=16, p=2.0)
    net, origin = build_network(settings)
    assert origin == {
        "backbone": str(vit),
        "attention": "identity",
        "pooling": "p = 2",
        "whitening": "random",
    }
    assert (net.dim, net.config.attention) == (16, {4: 4})
    assert net.pool.gem.p.item() == 2
    plain = solar.load(vit, device="cpu").backbone.encoder.state_dict()
    own = net.backbone.encoder.state_dict()
    assert all(torch.equal(own[name], value) for name, value in plain.items())
    with pytest.raises(SolarError, match="'nowhere/dinov2'"):
        build_network(NetworkStart(backbone="nowhere/dinov2"))
    with pytest.raises(SolarError, match=r"layers 4 of a dinov2.* 5"):
        build_network(NetworkStart(backbone=str(vit), attention="45"))


def test_a_pretrained_backbone_may_be_a_name_on_the_hub(
    vit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "solar.models.hub.repository.snapshot", lambda name, **_: asked.append(name) or vit
    )
    net, origin = build_network(NetworkStart(backbone="hf:org/dinov2", attention="4"))
    assert (net.config.backbone, origin["backbone"]) == ("dinov2", "hf:org/dinov2")
    loaded = solar.load("hf:org/dinov2", device="cpu")
    own = net.backbone.encoder.state_dict()
    assert all(
        torch.equal(own[name], v) for name, v in loaded.backbone.encoder.state_dict().items()
    )
    assert (loaded.source, asked) == ("hf:org/dinov2", ["hf:org/dinov2"] * 2)


@pytest.mark.parametrize(
    ("backbone", "decay", "rates"),
    [
        ({}, 1.0, {}),
        ({"layer2": 0.5, "norm": 1}, 1.0, {"layer2": 0.5, "norm": 1}),
        ({"all": 1}, 0.5, {"embeddings": 0.125, "layer1": 0.25, "layer2": 0.5, "norm": 1}),
    ],
)
def test_a_vision_transformer_is_frozen_in_part_or_learns_by_layers(
    vit: Path, backbone: dict[str, float], decay: float, rates: dict[str, float]
) -> None:
    net, _ = build_network(NetworkStart(backbone=str(vit), attention="4"))
    settings = RetrievalOptimiser(lr=1.0, pooling=1, backbone=backbone, layer_decay=decay)
    groups = {group["name"]: group["lr"] for group in parameter_groups(net, settings)}
    assert groups == {**rates, "soa4": 1, "pool": 1, "whiten": 1}
    net.train()
    net(torch.rand(2, 3, 42, 56)).sum().backward()
    learning = {name for name, p in net.backbone.encoder.named_parameters() if p.grad is not None}
    assert any("layer.1." in name for name in learning) == ("layer2" in rates)
    assert any("layer.0." in name for name in learning) == ("layer1" in rates)
    assert not any("mask_token" in name for name in learning)
    assert all(p.grad is not None for p in net.parameters() if p.requires_grad)


def test_layers_that_a_vision_transformer_lacks_are_named(vit: Path) -> None:
    net, _ = build_network(NetworkStart(backbone=str(vit)))
    with pytest.raises(SolarError, match=r"'layer3'.* all, embeddings, layer1, layer2"):
        parameter_groups(net, RetrievalOptimiser(backbone={"layer3": 1}))
