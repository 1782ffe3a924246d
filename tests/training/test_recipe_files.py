from dataclasses import replace
from pathlib import Path

import pytest
import torch

from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet
from solar.models.retrieval_config import REDUCTIONS, attention_at
from solar.training.objective import RetrievalLoss
from solar.training.recipe import read_recipe, read_settings
from solar.training.retrieval.parameter_groups import parameter_groups
from solar.training.retrieval.recipe import (
    Mining,
    NetworkStart,
    PlaceLoss,
    PlaceOptimiser,
    PlaceRecipe,
    RetrievalOptimiser,
    RetrievalRecipe,
)
from solar.training.schedule import Schedule

FOLDER = Path(__file__).parents[2] / "recipes"
RETRIEVAL = sorted(
    path for path in FOLDER.glob("*.yaml") if read_settings(path).get("task") == "retrieval"
)


def read(name: str) -> RetrievalRecipe:
    return read_recipe(RetrievalRecipe, FOLDER / f"{name}.yaml")


def test_recipes_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "solar-r101-gl18").mkdir()  # a folder of that name is no recipe
    main = read("solar-r101-gl18")
    for name in ("recipes/solar-r101-gl18.yaml", "solar-r101-gl18.yaml", "solar-r101-gl18"):
        assert read_recipe(RetrievalRecipe, name) == main


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ("few-place", r"few-place:.* \(nearest: few-places"),
        ("dinner", "dinner"),
        (".", "folder"),
    ],
)
def test_a_wrong_name_is_one_sentence_with_the_nearest(typed: str, complaint: str) -> None:
    with pytest.raises(SolarError, match=complaint):
        read_settings(typed)


def test_a_recipe_of_ones_own_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/solar-r101-gl18.yaml").write_text("data: {source: mine}")
    assert read_recipe(RetrievalRecipe, "recipes/solar-r101-gl18.yaml").data.source == ("mine",)


@pytest.mark.parametrize("path", RETRIEVAL, ids=lambda path: path.stem)
def test_every_recipe_builds_a_network_that_learns(path: Path) -> None:
    recipe = read_recipe(RetrievalRecipe, path)
    settings = recipe.network
    with torch.device("meta"):
        attention = attention_at(settings.attention, REDUCTIONS)
        net = RetrievalNet(RetrievalConfig(settings.backbone, attention=attention))
    assert parameter_groups(net, recipe.optimiser)


def test_the_main_recipe_is_the_published_run() -> None:
    recipe = read("solar-r101-gl18")
    assert recipe.loss == RetrievalLoss("triplet", 1.25, second_order=10, reduction="per_query")
    assert recipe.mining == Mining(2000, 20_000, 5, "hardest")
    assert recipe.mining_size == 341
    assert recipe.optimiser == RetrievalOptimiser("adam", 1e-6, 1e-6, pooling=100)
    assert recipe.schedule == Schedule("exponential", 0.01)
    assert (recipe.batch, recipe.epochs, recipe.seed, recipe.ema) == (8, 50, 0, None)
    assert (recipe.images.size, recipe.images.shape, recipe.images.augment) == (
        1024,
        "square",
        None,
    )
    assert not recipe.images.orient
    assert recipe.network == NetworkStart(
        backbone="resnet101",
        attention="45",
        features="gem-r101-gl18",
        whitening_from="whiten-r101-gem-sfm120k",
        p=3.0,
    )


@pytest.mark.parametrize(
    ("name", "learning"),
    [
        ("gem-r101-gl18", ["pool", "whiten"]),
        ("gem-sos-r101-gl18", ["layer4", "pool", "whiten"]),
        ("soa4-r101-gl18", ["soa4", "pool", "whiten"]),
        ("soa5-r101-gl18", ["soa5", "pool", "whiten"]),
        ("solar-r101-gl18", ["soa4", "soa5", "pool", "whiten"]),
    ],
)
def test_a_row_of_the_tables_learns_what_it_learned_in_the_published_code(
    name: str, learning: list[str]
) -> None:
    recipe = read(name)
    with torch.device("meta"):
        layers = attention_at(recipe.network.attention, REDUCTIONS)
        net = RetrievalNet(RetrievalConfig("resnet101", attention=layers))
    groups = parameter_groups(net, recipe.optimiser)
    assert [group["name"] for group in groups] == learning
    rates = {group["name"]: group["lr"] for group in groups}
    assert rates.pop("pool") == 100 * recipe.optimiser.lr
    assert set(rates.values()) == {recipe.optimiser.lr}


def test_the_comparisons_have_their_own_losses() -> None:
    main = read("solar-r101-gl18")
    network = replace(main.network, attention="")
    contrastive = RetrievalLoss("contrastive", 0.7, second_order=0, reduction="sum")
    assert read("contrastive-r101-gl18") == replace(main, network=network, loss=contrastive)
    listwise = read("ap-r101-gl18")
    assert listwise.network == network
    assert (listwise.loss.kind, listwise.loss.second_order) == ("average_precision", 0)
    assert (listwise.data, listwise.optimiser) == (main.data, main.optimiser)
    gem = read("gem-r101-gl18")
    assert read("dame-r101-gl18") == replace(gem, network=replace(network, pooling="dame"))


@pytest.mark.parametrize(
    ("name", "attention", "weight", "backbone"),
    [
        ("gem-r101-gl18", "", 0, {}),
        ("gem-sos-r101-gl18", "", 10, {"layer4": 1}),
        ("soa4-r101-gl18", "4", 0, {}),
        ("soa5-r101-gl18", "5", 0, {}),
        ("soa45-r101-gl18", "45", 0, {}),
    ],
)
def test_rows_of_the_tables_differ_in_nothing_else(
    name: str, attention: str, weight: int, backbone: dict[str, float]
) -> None:
    main, row = read("solar-r101-gl18"), read(name)
    assert row == replace(
        main,
        network=replace(main.network, attention=attention),
        loss=replace(main.loss, second_order=weight),
        optimiser=replace(main.optimiser, backbone=backbone),
    )


def test_the_retrained_solar_has_its_authors_settings() -> None:
    recipe = read_recipe(PlaceRecipe, FOLDER / "solar-r101-gldv2.yaml")
    assert recipe.loss == PlaceLoss("arcface", 0.2)
    assert recipe.optimiser == PlaceOptimiser(
        "sgd",
        0.01 * 32 / 256,
        1e-4,
        momentum=0.9,
        nesterov=True,
        pooling=0,
        backbone={"all": 1},
        batch_norm="trained",
    )
    assert recipe.schedule == Schedule("cosine", warmup=5 * (1_580_470 // 128))
    assert (recipe.batch, recipe.epochs, recipe.each, recipe.seed) == (128, 30, 1, 11)
    images = recipe.images
    assert (images.size, images.shape, images.min_area, images.orient) == (512, "crop", 0.2, False)
    network = recipe.network
    assert (network.backbone, network.attention, network.p) == ("resnet101", "5", 3)


@pytest.mark.parametrize("name", ["many-places", "solar-r101-gldv2"])
def test_every_recipe_over_places_leaves_the_exponent_alone(name: str) -> None:
    recipe = read_recipe(PlaceRecipe, FOLDER / f"{name}.yaml")
    with torch.device("meta"):
        depth = "resnet101" if "101" in name else "resnet18"
        net = RetrievalNet(RetrievalConfig(depth, attention={5: 2}))
    groups = {group["name"] for group in parameter_groups(net, recipe.optimiser)}
    assert {"soa5", "layer4", "whiten"} <= groups
    assert "pool" not in groups
