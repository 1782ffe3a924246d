"""Training of patch networks, on patches that are numbered squares and blobs."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.patch_sets import write_phototour

import solar
from solar.datasets.patches.hpatches import SIDE, STRIPS, HPatches, write_hpatches
from solar.datasets.patches.phototour import PatchPairs
from solar.errors import SolarError
from solar.models import PatchConfig, PatchNet, RetrievalConfig, RetrievalNet, save
from solar.training import train
from solar.training.patches.recipe import PatchData, PatchNetwork, PatchRecipe, PatchTeacher
from solar.training.patches.sources import PatchSet
from solar.training.patches.task import PatchTrainer
from solar.training.recipe import read_recipe
from solar.training.run import read_metrics
from solar.training.shared_recipe import Optimiser

RECIPES = Path(__file__).parents[3] / "recipes"


def toy_patches(points: int, views: int, side: int, seed: int = 0) -> np.ndarray:
    """Smooth patterns, one a point, each seen several times under noise: (points, views, s, s)."""
    rng = np.random.default_rng(seed)
    coarse = torch.from_numpy(rng.uniform(0, 255, (points, 1, 6, 6)).astype(np.float32))
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic").numpy()
    seen = smooth + rng.normal(0, 20, (points, views, side, side))
    return seen.clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tour")
    for seed, subset in enumerate(("liberty", "notredame")):
        patches = toy_patches(24, 4, 64, seed).reshape(-1, 64, 64)
        points = np.repeat(np.arange(24), 4)
        left = np.repeat(np.arange(0, 96, 4), 2)
        right = np.where(np.arange(48) % 2 == 0, left + 1, (left + 4) % 96)
        pairs = PatchPairs(left, right, points[left] == points[right])
        write_phototour(root / subset, patches, points, pairs)
    return root


def recipe_file(folder: Path, tour: Path, text: str = "") -> Path:
    path = folder / "recipe.yaml"
    path.write_text(
        "task: patches\n"
        f"data: {{kind: phototour, source: [{tour}], parts: [liberty]}}\n"
        f'network: {{attention: "4"}}\nbatch: 8\nsteps: 4\nlog_every: 1\n{text}'
    )
    return path


def test_the_loss_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patches = toy_patches(8, 4, 32).reshape(-1, 32, 32)
    source = PatchSet(patches, np.repeat(np.arange(8), 4), points=8, seed=0)
    recipe = PatchRecipe(
        data=PatchData(("toys",)),
        network=PatchNetwork("5"),
        steps=10,
        optimiser=Optimiser(lr=0.003),
    )
    monkeypatch.setattr(PatchTrainer, "open_source", lambda _: source)
    trainer, losses = PatchTrainer(recipe, tmp_path), []
    for batch in trainer.batches():
        trainer.take(batch)
        losses.append(trainer.meter.read()["loss"])
    assert len(losses) == 10
    assert np.mean(losses[-2:]) < 0.7 * losses[0]


def test_sides_may_go_through_the_batch_norms_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patches = toy_patches(8, 2, 32)
    patches[:, 1] = 255 - patches[:, 1]  # each side has statistics of its own
    pairs = torch.from_numpy(patches).float().movedim(1, 0)[:, :, None]
    monkeypatch.setattr(PatchTrainer, "open_source", lambda _: SimpleNamespace(batches=1))
    found = {}
    for sides in ("together", "apart"):
        recipe = PatchRecipe(data=PatchData(("toys",)), network=PatchNetwork("", 0), sides=sides)
        trainer = PatchTrainer(recipe, tmp_path / sides)
        found[sides] = trainer.terms(pairs)["loss"].item()
        trainer = PatchTrainer(recipe, tmp_path / sides)
        rows = [
            trainer.net(side) for side in ([pairs.flatten(0, 1)] if sides == "together" else pairs)
        ]
        expected = recipe.loss(*torch.cat(rows).chunk(2))[0].item()
        assert found[sides] == pytest.approx(expected, rel=1e-5)
    assert abs(found["apart"] - found["together"]) > 0.01 * found["together"]


def test_a_small_network_becomes_like_its_teacher_who_looks_at_a_batch_once(
    tmp_path: Path, tour: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(PatchNet(PatchConfig({5: 2})), tmp_path / "teacher.safetensors")
    looked = []
    forward = PatchNet.forward

    def counted(net: PatchNet, patches: torch.Tensor) -> torch.Tensor:
        looked.append(net.training)
        return forward(net, patches)

    monkeypatch.setattr(PatchNet, "forward", counted)
    small = "[[8, 1], [8, 2], [16, 1], [16, 2], [16, 1], [16, 1]]"
    changes = [f"network.layers={small}", "steps=12", "optimiser.lr=0.003", "teacher.batches=2"]
    changes += [f"teacher.model={tmp_path / 'teacher.safetensors'}", "teacher.weight=5"]
    train(recipe_file(tmp_path, tour), changes, run=tmp_path / "run")
    apart = [line["apart"] for line in read_metrics(tmp_path / "run") if "apart" in line]
    assert np.mean(apart[-2:]) < 0.8 * np.mean(apart[:2])
    assert looked.count(False) == 2


def test_a_teacher_is_not_imitated_less_than_not_at_all() -> None:
    with pytest.raises(SolarError, match=r"teacher\.(weight|batches)"):
        PatchTeacher("solar-local-345", weight=-1)


def test_a_teacher_for_photos_is_refused(tmp_path: Path, tour: Path) -> None:
    teacher = tmp_path / "photos.safetensors"
    save(RetrievalNet(RetrievalConfig("resnet18")), teacher)
    with pytest.raises(SolarError, match=r"teacher\.model"):
        train(recipe_file(tmp_path, tour), [f"teacher.model={teacher}"], run=tmp_path / "run")


def test_a_trained_network_is_a_file_that_loads(tmp_path: Path, tour: Path) -> None:
    summary = solar.train(recipe_file(tmp_path, tour), run=tmp_path / "run")
    assert summary["steps"] == 4
    net = solar.load(summary["model"], device="cpu")
    assert isinstance(net, PatchNet)
    assert net.config.attention == {4: 4}
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert {"loss", "second", "lr", "steps_a_second"} <= set(lines[0])


@pytest.mark.parametrize("taught", [False, True])
def test_a_run_that_was_stopped_goes_on_to_the_same_weights(
    tmp_path: Path, tour: Path, monkeypatch: pytest.MonkeyPatch, taught: bool
) -> None:
    teacher = tmp_path / "teacher.safetensors"
    save(PatchNet(), teacher)
    more = f"teacher: {{model: {teacher}, batches: 1}}\n" if taught else ""
    recipe = recipe_file(tmp_path, tour, f"save_every: 2\nema: 0.9\n{more}")
    train(recipe, run=tmp_path / "whole")
    take = PatchTrainer.take

    def stop_after_three(self: PatchTrainer, batch: torch.Tensor) -> None:
        if self.step == 3:
            raise KeyboardInterrupt
        take(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(PatchTrainer, "take", stop_after_three)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, run=tmp_path / "parts")
    train(recipe, run=tmp_path / "parts", resume=True)
    whole = load_file(tmp_path / "whole" / "last.safetensors")
    parts = load_file(tmp_path / "parts" / "last.safetensors")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert [line["step"] for line in read_metrics(tmp_path / "parts")] == [1, 2, 3, 4]


def test_a_loss_that_is_no_number_stops_the_run_before_it_is_saved(
    tmp_path: Path, tour: Path
) -> None:
    recipe = recipe_file(tmp_path, tour, "save_every: 1\n")
    wild = ["optimiser.kind=sgd", "optimiser.lr=1e38"]
    with pytest.raises(SolarError, match=r"optimiser\.lr"):
        train(recipe, wild, run=tmp_path / "run")
    assert not (tmp_path / "run" / "best.safetensors").exists()
    for path in (tmp_path / "run" / "checkpoints").glob("*.pt"):
        weights = torch.load(path, weights_only=True)["state"]["network"]
        assert weights["trunk.layer1.0.weight"].isfinite().all()


def test_a_run_ends_when_its_time_is_over(tmp_path: Path, tour: Path) -> None:
    recipe = recipe_file(tmp_path, tour)
    summary = train(recipe, ["steps=1000", "seconds=0"], run=tmp_path / "run")
    assert summary["steps"] == 1
    assert Path(summary["model"]).exists()


def test_the_best_state_on_other_subsets_is_kept(
    tmp_path: Path, tour: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import solar.training.patches.task as patch_task

    monkeypatch.setattr(patch_task, "PAIRS", 48)
    text = f"validation: {{source: {tour}, parts: [notredame], every: 1}}\n"
    summary = train(recipe_file(tmp_path, tour, text), run=tmp_path / "run")
    rates = [line["FPR95"] for line in read_metrics(tmp_path / "run") if "FPR95" in line]
    assert len(rates) == 4
    assert summary["FPR95"] == min(rates)


def hpatches(root: Path) -> Path:
    seen = toy_patches(10, len(STRIPS), SIDE, seed=7)
    strips = {kind: seen[:, number] for number, kind in enumerate(STRIPS)}
    write_hpatches(HPatches.of({"v_toy": strips}), root)
    return root


def test_strips_of_hpatches_train_and_judge(tmp_path: Path) -> None:
    root = hpatches(tmp_path / "strips")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"task: patches\ndata: {{kind: hpatches, source: [{root}]}}\nbatch: 8\nsteps: 2\n"
        f"validation: {{kind: hpatches, source: {root}}}\n"
    )
    summary = train(path, run=tmp_path / "run")
    assert 0 <= summary["matching"] <= 100


def test_photos_train_and_their_keypoints_are_kept(tmp_path: Path) -> None:
    from solar.demo import toy

    toy.write(tmp_path / "photos", landmarks=2, views=1, size=(160, 120))
    overrides = [
        f"data.source=[{tmp_path / 'photos'}]", "batch=8", "steps=2", "data.per_photo=4",
    ]  # fmt: skip
    train(RECIPES / "solar-local-345-photos.yaml", overrides, run=tmp_path / "run")
    assert (tmp_path / "run" / "best.safetensors").exists()


def test_sequences_train(tmp_path: Path) -> None:
    from PIL import Image

    from solar.demo import toy

    folder = tmp_path / "scenes" / "wall"
    folder.mkdir(parents=True)
    whole = toy.landmark(3, 0, size=(200, 150))
    for number in (1, 2):
        whole.crop((8 * number, 0, 160 + 8 * number, 150)).save(folder / f"{number}.png")
    (folder / "H_1_2").write_text("1 0 -8\n0 1 0\n0 0 1\n")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"task: patches\ndata: {{kind: sequences, source: [{tmp_path / 'scenes'}], per_photo: 4}}\n"
        "batch: 8\nsteps: 1\n"
    )
    assert Image.open(folder / "1.png").size == (160, 150)
    assert train(path, run=tmp_path / "run")["steps"] == 1


@pytest.mark.parametrize("row", ["3", "4", "5", "6", "34", "35", "45", "46", "345", "456", "none"])
def test_every_row_of_the_table_has_a_recipe(row: str) -> None:
    recipe = read_recipe(PatchRecipe, RECIPES / f"solar-local-{row}-liberty.yaml")
    assert recipe.network.attention == row.replace("none", "")
    assert (recipe.batch, recipe.epochs, recipe.loss.kind) == (512, 100, "sosnet")
    assert recipe.validation.parts == ("notredame", "yosemite")


def test_hardnet_has_its_own_settings() -> None:
    recipe = read_recipe(PatchRecipe, RECIPES / "hardnet-local-none-liberty.yaml")
    assert recipe.optimiser == Optimiser("sgd", 10.0, 1e-4, 0.9, 0.9)
    left = torch.nn.functional.normalize(torch.randn(6, 8), dim=1)
    assert float(recipe.loss(left, left.flip(0)).second) == 0


def test_a_warm_up_leaves_the_cosine(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {source: photos}")
    recipe = read_recipe(PatchRecipe, path, ["schedule.warmup=5"])
    assert (recipe.schedule.kind, recipe.schedule.warmup) == ("cosine", 5)
