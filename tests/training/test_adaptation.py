from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.drawn import relative_error
from support.filled import index_of
from support.golden2 import drawn, golden2
from torch import nn

import solar
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet, fingerprint, save
from solar.training.adaptation import (
    AdaptationSettings,
    cosines,
    fit,
    place_loss,
    trained_layer,
)
from solar.training.retrieval.recipe import NetworkStart
from solar.training.retrieval.start import build_network

PLACES, VIEWS, DIM = 20, 8, 32


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> RetrievalNet:
    """A small network, of a file."""
    torch.manual_seed(0)
    made = RetrievalNet(solar.RetrievalConfig("alexnet", pooling="spoc", dim=DIM))
    return solar.load(save(made, tmp_path_factory.mktemp("net") / "plain.safetensors"))


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, net: RetrievalNet) -> Make:
    """Indexes of places that differ in a few directions, and photos of one more in others."""

    def index(places: int = PLACES, folder: str = "photos.solar") -> Path:
        random = np.random.default_rng(0)
        of_place = np.repeat(np.arange(places), VIEWS)
        x = 0.1 * random.standard_normal((len(of_place), DIM))
        x[:, :8] += random.standard_normal((places, 8))[of_place]
        x[:, 8:14] += 1.5 * random.standard_normal((len(of_place), 6))  # light, say
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        names = [f"{place:02}/{view}.jpg" for place in range(places) for view in range(VIEWS)]
        facts = {"model": net.source, "fingerprint": fingerprint(net), "settings": {}, "dim": DIM}
        index_of(tmp_path / folder, names, x.astype(np.float32), facts).close()
        return tmp_path / folder

    return index


def test_a_layer_that_helps_is_written_with_its_network(
    make: Make, net: RetrievalNet, tmp_path: Path
) -> None:
    told = []
    found = solar.adapt(
        make(),
        output=tmp_path / "out.safetensors",
        epochs=60,
        progress=lambda *step: told.append(step),
    )
    assert found.low > 0.02
    assert found.low < found.gain < found.high
    assert found.places == PLACES
    assert found.photos == PLACES * VIEWS
    assert found.to_dict()["gain"] == pytest.approx(100 * (found.after - found.before))
    assert told[-1] == ("Measuring on held-out places", 5, 5)
    model = solar.load(tmp_path / "out.safetensors")
    assert fingerprint(model) == fingerprint(found.model)
    photo = np.random.default_rng(1).integers(0, 256, (64, 96, 3), np.uint8)
    plain, adapted = net.describe(photo), model.describe(photo)
    with torch.inference_mode():
        np.testing.assert_allclose(
            adapted, net.with_adaptation(model.adapt).adapted(torch.from_numpy(plain)), atol=1e-6
        )
    assert np.abs(adapted - plain).max() > 0.01
    solar.convert(tmp_path / "out.safetensors", tmp_path / "half.safetensors", half=True)
    assert (solar.load(tmp_path / "half.safetensors").describe(photo) @ adapted.T).item() > 0.9999
    with pytest.raises(SolarError, match="adaptation layer"):
        solar.convert(tmp_path / "out.safetensors", tmp_path / "out.pth")


def test_a_layer_of_labels_that_mean_nothing_is_refused(make: Make, tmp_path: Path) -> None:
    index = make()
    names = solar.Index.open(index).paths
    shuffled = np.random.default_rng(0).permutation(names)
    labels = {str(name): other[:2] for name, other in zip(shuffled, names, strict=True)}
    with pytest.raises(SolarError, match=r"interval -.* 20 places"):
        solar.adapt(index, labels, tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_what_counts_are_places_that_have_two_photos_and_a_label(make: Make) -> None:
    index = make()
    names = solar.Index.open(index).paths
    labels = {name: name[:2] for name in names if name[:2] < "12"}
    labels |= {"13/0.jpg": "alone", "elsewhere.jpg": "00"}
    found = solar.adapt(index, labels, epochs=60)
    assert (found.places, found.photos) == (12, 12 * VIEWS)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"labels": {"x.jpg": "tower"}}, r"labels.* 00/0\.jpg"),
        ({"labels": {"00/0.jpg": "a", "00/1.jpg": "a"}}, "1 places"),
        ({"output": "out.pth"}, r"out\.pth.* \.safetensors"),
        ({"dim": DIM + 1}, f"{DIM}.* {DIM + 1}"),
        ({"model": "solar-r18"}, r"plain\.safetensors.* solar-r18"),
    ],
)
def test_what_cannot_be_adapted_gets_a_sentence(
    make: Make, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(SolarError, match=sentence):
        solar.adapt(make(), **options)  # type: ignore[arg-type]


def test_a_model_that_is_gone_can_be_given(
    make: Make, net: RetrievalNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(net, "source", "/gone/plain.safetensors")
    index = make(folder="gone.solar")
    with pytest.raises(SolarError, match=r"/gone/plain\.safetensors.*`model=`"):
        solar.adapt(index)
    assert solar.adapt(index, model=net, epochs=60).gain > 0


def test_an_adapted_network_is_not_adapted_again(net: RetrievalNet, tmp_path: Path) -> None:
    adapted = net.with_adaptation(nn.Linear(DIM, DIM))
    names = [f"{number // 2}/{number % 2}.jpg" for number in range(40)]
    facts = {"model": "", "fingerprint": fingerprint(adapted), "settings": {}, "dim": DIM}
    index = index_of(tmp_path / "a.solar", names, np.eye(DIM, dtype=np.float32)[[0] * 40], facts)
    with pytest.raises(SolarError, match="adapted"):
        solar.adapt(index, model=adapted)


def test_photos_that_are_all_the_same_gain_nothing(net: RetrievalNet, tmp_path: Path) -> None:
    names = [f"{p:02}/{v}.jpg" for p in range(PLACES) for v in range(VIEWS)]
    facts = {"model": net.source, "fingerprint": fingerprint(net), "settings": {}, "dim": DIM}
    x = np.eye(PLACES, DIM, dtype=np.float32).repeat(VIEWS, axis=0)
    index = index_of(tmp_path / "same.solar", names, x, facts)
    with pytest.raises(SolarError, match=r"100\.0.* 100\.0 \(\+0\.0"):
        solar.adapt(index)


def test_what_is_no_index_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="solar index build"):
        solar.adapt(tmp_path)


def test_training_starts_without_the_layer(net: RetrievalNet, tmp_path: Path) -> None:
    adapted = net.with_adaptation(nn.Linear(DIM, 8))
    start = save(adapted, tmp_path / "adapted.safetensors")
    found, _ = build_network(NetworkStart(start=str(start), attention=""))
    assert found.config == net.config
    torch.testing.assert_close(found.state_dict(), net.state_dict())


GOLDEN = golden2("ilias")
PUBLISHED = AdaptationSettings(start="random", pull=0, scale=16)


def published_start() -> tuple[nn.Linear, torch.Tensor]:
    """The layer and the vectors of the classes that the golden numbers start from."""
    weight = drawn(
        "adaptation_layer.layer.weight", GOLDEN["ilias_grad_adaptation_layer.layer.weight"].shape
    )
    layer = nn.Linear(*reversed(weight.shape))
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(drawn("adaptation_layer.layer.bias", weight.shape[:1]))
    return layer, drawn("classifier.weight", GOLDEN["ilias_grad_classifier.weight"].shape)


def test_cosines_loss_and_gradients_are_the_published_ones() -> None:
    layer, classes = published_start()
    count = len(GOLDEN["ilias_adapted"])
    x = torch.from_numpy(GOLDEN["ilias_x"][:count]).requires_grad_()
    labels = torch.from_numpy(GOLDEN["ilias_labels"][:count]).long()
    found = cosines(layer, classes.requires_grad_(), x)
    loss = place_loss(found, labels, PUBLISHED)
    loss.backward()
    for ours, name in (
        (found, "cosines"),
        (loss, "loss"),
        (x.grad, "grad_x"),
        (layer.weight.grad, "grad_adaptation_layer.layer.weight"),
        (layer.bias.grad, "grad_adaptation_layer.layer.bias"),
        (classes.grad, "grad_classifier.weight"),
    ):
        assert relative_error(ours, GOLDEN[f"ilias_{name}"]) < 1e-5, name


def test_training_is_the_published_one() -> None:
    layer, classes = published_start()
    size = len(GOLDEN["ilias_adapted"])
    x = torch.from_numpy(GOLDEN["ilias_x"]).split(size)
    labels = torch.from_numpy(GOLDEN["ilias_labels"]).long().split(size)
    losses = fit(layer, classes, zip(x, labels, strict=True), PUBLISHED)
    for ours, name in (
        (losses, "train_losses"),
        (layer.weight, "trained_layer.weight"),
        (layer.bias, "trained_layer.bias"),
        (classes, "trained_classifier.weight"),
    ):
        assert relative_error(ours, GOLDEN[f"ilias_{name}"]) < 1e-5, name


def test_an_adapted_descriptor_is_the_published_one() -> None:
    layer, _ = published_start()
    net = RetrievalNet(RetrievalConfig("alexnet", dim=layer.in_features))
    x = torch.from_numpy(GOLDEN["ilias_x"][: len(GOLDEN["ilias_adapted"])])
    found = net.with_adaptation(layer).adapted(x)
    assert relative_error(found, GOLDEN["ilias_adapted"]) < 1e-5


def test_a_shorter_descriptor_starts_from_the_main_directions() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 16)) * np.linspace(3, 0.1, 16)
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    settings = AdaptationSettings(dim=8, epochs=0, shrink=1e6)
    layer = trained_layer(x, np.arange(60) % 12, settings)
    assert layer.weight.shape == (8, 16)
    assert np.linalg.norm(x @ layer.weight.numpy().T, axis=1).mean() > 0.9  # half would be 0.7
    drawn = trained_layer(x, np.arange(60) % 12, replace(settings, start="random"))
    again = trained_layer(x, np.arange(60) % 12, replace(settings, start="random"))
    torch.testing.assert_close(again.weight, drawn.weight, rtol=0, atol=0)


def test_what_differs_within_places_counts_for_less_at_the_start() -> None:
    random = np.random.default_rng(0)
    places = np.repeat(np.arange(50), 40)
    x = random.standard_normal((50, 4))[places]
    x[:, 0] += 3 * random.standard_normal(len(x))
    x[:, 1:] += random.standard_normal((len(x), 3))
    layer = trained_layer(x.astype(np.float32), places, AdaptationSettings(epochs=0, shrink=0))
    weight = layer.weight.numpy() / layer.weight.numpy().max()
    np.testing.assert_allclose(weight, np.diag([1 / 3, 1, 1, 1]), atol=0.05)
