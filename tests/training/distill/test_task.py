import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.running import python
from support.teachers import exported, torchscript
from support.tiny_backbone import register

import solar
from solar.demo import toy
from solar.errors import SolarError
from solar.models import RetrievalNet
from solar.training.distill import task as work
from solar.training.distill.recipe import DistillRecipe, command_recipe
from solar.training.distill.task import distill
from solar.training.distill.teacher import load_teacher
from solar.training.run import read_metrics

SMALL = (
    *("sizes=[64,96]", "batch=8", "steps=4", "data.size=96", "log_every=1", "save_every=2"),
    *("schedule.warmup=2", "optimiser.lr=2e-3", "compute.device=cpu", "ema=0.9"),
    "student.backbone=tiny",
)
register()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    toy.write(folder, landmarks=6, views=4, size=(120, 90))
    return folder


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torchscript(tmp_path_factory.mktemp("teacher") / "teacher.ts")


@pytest.fixture(scope="module")
def start(photos: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a student that has learnt for one step."""
    run = tmp_path_factory.mktemp("start")
    return str(distill(recipe(photos, teacher, "steps=1"), run=run)["model"])


def recipe(photos: Path, teacher: Path, *settings: str) -> DistillRecipe:
    return command_recipe([str(photos), *SMALL, *settings], {"teacher": str(teacher)})


def weights(path: Path) -> dict[str, Any]:
    return solar.load(path, device="cpu").state_dict()


def test_a_student_comes_closer_to_its_teacher(photos: Path, teacher: Path, tmp_path: Path) -> None:
    settings = ("steps=30", "save_every=30", "student.attention=45")
    summary = distill(recipe(photos, teacher, *settings), run=tmp_path)
    lines = read_metrics(tmp_path)
    assert lines[0]["places"] - summary["places"] > 0.3
    assert lines[0]["pooled"] - summary["pooled"] > 0.3
    assert summary["finished"]
    student = solar.load(summary["model"], device="cpu")
    assert isinstance(student, RetrievalNet)
    assert student.config.attention == {4: 4, 5: 2}
    assert any(value.abs().max() > 0 for value in student.backbone.soa5.output.parameters())


def test_a_run_that_is_interrupted_ends_as_one_that_is_not(
    photos: Path, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = distill(recipe(photos, teacher), run=tmp_path / "whole")

    take = work.DistillTrainer.take

    def interrupted(self: work.DistillTrainer, batch: Any) -> None:
        if self.step == 3:
            raise KeyboardInterrupt
        take(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(work.DistillTrainer, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            distill(recipe(photos, teacher), run=tmp_path / "parts")
    parts = distill(recipe(photos, teacher), run=tmp_path / "parts", resume=True)
    first, second = weights(whole["model"]), weights(parts["model"])
    assert all(torch.equal(first[name], second[name]) for name in first)
    metrics = [
        [{k: v for k, v in line.items() if k != "photos_per_second"} for line in read_metrics(run)]
        for run in (tmp_path / "whole", tmp_path / "parts")
    ]
    assert metrics[0] == metrics[1]


def test_a_run_whose_time_is_up_stops_with_a_checkpoint_and_goes_on(
    photos: Path, teacher: Path, tmp_path: Path
) -> None:
    hurried = recipe(photos, teacher, "seconds=0.001", "steps=3", "save_every=3")
    first = distill(hurried, run=tmp_path)
    assert (first["steps"], first["finished"]) == (1, False)
    assert Path(first["model"]).exists()
    patient = replace(hurried, seconds=None)
    rest = distill(patient, run=tmp_path, resume=True)
    assert (rest["steps"], rest["finished"]) == (3, True)


def test_pca_whitens_what_the_student_sees(photos: Path, teacher: Path, tmp_path: Path) -> None:
    settings = ("steps=2", "student.whitening=pca", "student.dim=16", "student.size=512")
    summary = distill(recipe(photos, teacher, *settings), run=tmp_path)
    student = solar.load(summary["model"], device="cpu")
    assert isinstance(student, RetrievalNet)
    vectors = student.describe(sorted(photos.rglob("*.jpg")), size=96, scales=(1.0,))
    assert vectors.shape == (24, 16)
    assert student.config.size == 512
    # Whitened vectors look in all directions; pooled activations all look the same way.
    assert abs((vectors @ vectors.T).mean()) < 0.3


def test_a_teacher_that_learns_first_tells_landmarks_apart(
    photos: Path, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (
        *("whiten_teacher=0.5", "tune.steps=30", "tune.lr=3e-3", "sizes=[64]", "steps=2"),
        *("landmarks.photos={landmark-: 16}", "landmarks.each=4", "batch=4"),
    )
    start = torch.jit.load(str(teacher)).state_dict()
    first = distill(recipe(photos, teacher, *settings, "seconds=0.001"), run=tmp_path)
    told = read_metrics(tmp_path)[0]
    assert told["teacher_alike"] < told["teacher_alike_before"] - 0.3
    learnt = load_file(tmp_path / "teacher.safetensors")
    assert learnt.keys() == start.keys()
    assert not any(torch.equal(learnt[name], start[name]) for name in start)
    # A run that goes on takes what the teacher has learnt; it does not learn again.
    assert not first["finished"]
    monkeypatch.setattr(work, "tune", lambda *_: pytest.fail("the teacher learns again"))
    assert distill(recipe(photos, teacher, *settings), run=tmp_path, resume=True)["finished"]


def test_places_even_out_how_their_photos_differ(
    photos: Path, teacher: Path, start: str, tmp_path: Path
) -> None:
    settings = (f"student.start={start}", "steps=1", "sizes=[64]", "student.power=0.5")
    found = {}
    for kind in ("pca", "places"):
        wanted = contrasting(photos, teacher, *settings, f"student.whitening={kind}")
        model = solar.load(distill(wanted, run=tmp_path / kind)["model"], device="cpu")
        assert isinstance(model, RetrievalNet)
        assert model.whiten is not None
        found[kind] = model.whiten.weight.detach()
    matrix = found["places"] @ torch.linalg.pinv(found["pca"])
    seen = matrix[:16, :16]  # 24 photos: further directions are noise
    assert torch.allclose(seen, seen.T, atol=1e-3)
    values = torch.linalg.eigvalsh((seen + seen.T) / 2)
    assert 0.1 < values[0] < 0.95 < values[-1] < 1.001


def test_the_teachers_whitening_makes_the_two_comparable(
    photos: Path, teacher: Path, tmp_path: Path
) -> None:
    settings = ("student.whitening=teacher", "steps=12", "save_every=12", "sizes=[64]")
    summary = distill(recipe(photos, teacher, *settings), run=tmp_path)
    student = solar.load(summary["model"], device="cpu")
    assert isinstance(student, RetrievalNet)
    images = torch.rand(4, 3, 64, 64)
    _, theirs = load_teacher(teacher, sizes=(64,))(images)
    with torch.no_grad():
        ours = student((images - student.mean) / student.std)
    assert ours.shape == theirs.shape
    assert (ours * theirs).sum(dim=1).mean() > 0.5


def test_an_exported_program_teaches_as_well(photos: Path, tmp_path: Path) -> None:
    """It teaches what TorchScript of the same network does."""
    found = [
        distill(recipe(photos, teacher, "steps=1"), run=tmp_path / teacher.stem)
        for teacher in (exported(tmp_path / "one.pt2"), torchscript(tmp_path / "other.ts"))
    ]
    assert found[0]["places"] == pytest.approx(found[1]["places"], rel=1e-4)
    assert found[0]["pooled"] == pytest.approx(found[1]["pooled"], rel=1e-4)


def test_validation_is_logged_and_the_best_state_is_what_comes_out(
    photos: Path, teacher: Path, tmp_path: Path
) -> None:
    settings = (f"validation.source=[{photos}]", "validation.every=2", "validation.size=96")
    summary = distill(recipe(photos, teacher, *settings), run=tmp_path)
    found = [line["mAP"] for line in read_metrics(tmp_path) if "mAP" in line]
    assert len(found) == 2
    assert summary["mAP"] == max(found)
    assert (tmp_path / "checkpoints" / "best.pt").exists()


def test_it_runs_where_optional_packages_are_missing(
    photos: Path, teacher: Path, tmp_path: Path
) -> None:
    """A lent GPU may have torch and little else."""
    code = f"""
import sys
for name in ("faiss", "platformdirs", "simplejpeg", "tensorboard", "matplotlib"):
    sys.modules[name] = None  # importing it now fails
from solar.training.distill.task import distill
from solar.training.distill.recipe import command_recipe
recipe = command_recipe({[str(photos), *SMALL, f"validation.source=[{photos}]", "steps=1"]!r},
                        {{"teacher": {str(teacher)!r}, "student.backbone": "resnet18"}})
assert distill(recipe, run={str(tmp_path)!r})["mAP"] > 0
"""
    done = subprocess.run([*python(), "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_student_may_start_from_another(
    photos: Path, teacher: Path, start: str, tmp_path: Path
) -> None:
    from_it = f"student.start={start}"
    # A rate of nearly zero keeps the weights: batch norm's averages alone move.
    settings = (from_it, "steps=1", "student.attention=5", "optimiser.lr=1e-12")
    second = distill(recipe(photos, teacher, *settings), run=tmp_path / "second")
    name = "backbone.middle.0.weight"
    torch.testing.assert_close(weights(second["model"])[name], weights(start)[name])
    other = recipe(photos, teacher, from_it, "student.backbone=resnet34")
    with pytest.raises(SolarError, match="another backbone"):
        distill(other, run=tmp_path / "third")


def test_a_loss_that_is_no_number_stops_the_run(
    photos: Path, teacher: Path, tmp_path: Path
) -> None:
    wild = recipe(photos, teacher, "optimiser.lr=1e30", "optimiser.clip=null")
    with pytest.raises(SolarError, match=r"nan at step .*optimiser\.lr"):
        distill(wild, run=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "No photos are given"),
        (["photos", "batch=1"], "batch must be 2 or more"),
        (["photos", "sizes=[16]"], "sizes must be 32 or more"),
        (["photos", "student.power=2"], r"student\.power must be from 0 to 1"),
        (["photos", "student.size=8"], r"student\.size must be 32 or more"),
        (
            ["photos", "warmup_projections=5000"],
            "warmup_projections",
        ),
        (["photos", "landmarks.photos={a/: 1}"], "landmarks.photos"),
        (["photos", "landmarks.each=1"], "landmarks.each"),
        (["photos", "student.whitening=places"], "student.whitening places needs landmarks"),
        (["photos", "whiten_teacher=2"], "whiten_teacher must be from 0 to 1"),
        (["photos", "shares=[1,2]"], r"shares must be 1 .* above 0"),
        (["photos", "shares=[0]"], r"shares must be 1 .* above 0"),
        (["photos", "tune.steps=9"], "tune.steps needs whiten_teacher above 0"),
        (["photos", "tune.steps=-1"], r"tune\.steps"),
        (
            ["photos", "whiten_teacher=0.5", "student.whitening=teacher"],
            "whiten_teacher",
        ),
        (["photos", "student.dim=8"], r"student\.dim"),
        (["photos", "studnet.dim=8"], r"'studnet"),
        (["a.yaml", "b.yml"], "a.yaml and b.yml"),
        (["distill-r18", "distill-toy"], "distill-r18 and distill-toy"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: list[str], complaint: str) -> None:
    with pytest.raises(SolarError, match=complaint):
        command_recipe(arguments, {"teacher": "teacher.ts"})


def test_options_go_over_settings_and_settings_over_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "task: distill\nteacher: a.ts\nbatch: 4\nsteps: 7\n"
        "student: {backbone: resnet34, attention: 4}\nschedule: {warmup: 3}\n"
    )
    built = command_recipe(
        ["photos", str(path), "batch=6", "more.tar"], {"student.attention": "45", "teacher": None}
    )
    assert (built.teacher, built.batch, built.steps) == (("a.ts",), 6, 7)
    assert (built.student.backbone, built.student.attention) == ("resnet34", "45")
    assert built.data.source == ("photos", "more.tar")
    assert (built.schedule.kind, built.schedule.warmup) == ("cosine", 3)


def test_solar_train_knows_distillation(photos: Path, teacher: Path, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(f"task: distill\nteacher: {teacher}\ndata: {{source: [{photos}]}}\n")
    summary = solar.train(path, (*SMALL, "steps=1"), run=tmp_path / "run")
    same = distill(recipe(photos, teacher, "steps=1"), run=tmp_path / "same")
    first, second = weights(summary["model"]), weights(same["model"])
    assert all(torch.equal(first[name], second[name]) for name in first)


def contrasting(photos: Path, teacher: Path, *settings: str) -> DistillRecipe:
    """The folder's own name is not part of its photos' names: an empty start takes them all."""
    landmarks = ("landmarks.photos={'': 8}", "landmarks.each=4", "loss.alike=0.5")
    return recipe(photos, teacher, *landmarks, *settings)


def test_photos_of_one_landmark_become_alike(photos: Path, teacher: Path, tmp_path: Path) -> None:
    alone = ("loss.places=0", "loss.pooled=0", "loss.alike=1", "loss.second_order=1")
    easy = ("sizes=[64]", "augment.crop=0.1", "augment.colour=0.1", "steps=120", "save_every=120")
    distill(contrasting(photos, teacher, *alone, *easy), run=tmp_path)
    lines = read_metrics(tmp_path)
    first, last = (sum(line["alike"] for line in part) / 5 for part in (lines[:5], lines[-5:]))
    assert last < 0.6 * first
    assert all(line["second_order"] > 0 for line in lines)


def test_a_contrasting_run_that_is_interrupted_ends_the_same(
    photos: Path, teacher: Path, start: str, tmp_path: Path
) -> None:
    settings = (f"student.start={start}", "warmup_projections=2", "steps=4", "save_every=2")
    settings += ("whiten_teacher=0.5", "loss.relation=0.5", f"teacher=[{teacher},{start}]")
    whole = distill(contrasting(photos, teacher, *settings), run=tmp_path / "whole")
    hurried = contrasting(photos, teacher, *settings, "seconds=0.001")
    for _ in range(4):
        parts = distill(hurried, run=tmp_path / "parts", resume=True)
    assert parts["finished"]
    first, second = weights(whole["model"]), weights(parts["model"])
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_while_projections_settle_the_student_does_not_move(
    photos: Path, teacher: Path, start: str, tmp_path: Path
) -> None:
    settings = (f"student.start={start}", "warmup_projections=3", "ema=0", "seconds=0.001")
    summary = distill(contrasting(photos, teacher, *settings), run=tmp_path / "run")
    before, after = weights(start), weights(summary["model"])
    learnt = [name for name in before if name.endswith("weight")]
    assert all(torch.equal(before[name], after[name]) for name in learnt)


def test_what_a_step_sees_has_the_landmarks_that_were_asked_for(
    photos: Path, teacher: Path
) -> None:
    from solar.training.distill.image_cache import Order, cache_images

    wanted = contrasting(photos, teacher)
    caches = cache_images([photos], 96, cache="none")
    draw = work.OrderWithLandmarks(Order(caches, {}, wanted.batch, 0), caches, wanted)
    numbers, shown = draw(5), draw.shown(5)
    assert len(numbers) == 16
    assert numbers.tolist() == sorted(numbers.tolist()) == draw(5).tolist()
    names = caches[0].photos.names
    folders = [names[n].rpartition("/")[0] for n in numbers.tolist()]
    together = {(a, b) for a, b in zip(folders, shown.tolist(), strict=True)}
    assert len(together) == len(set(folders)) == len(set(shown.tolist()))


def test_other_kinds_of_landmarks_come_with_every_step(photos: Path, teacher: Path) -> None:
    from solar.training.distill.image_cache import Order, cache_images

    caches = cache_images([photos], 96, cache="none")
    folders = sorted({name.rpartition("/")[0] for name in caches[0].photos.names})
    start = next(text for text in (folder[:-1] for folder in folders) if text)
    wanted = contrasting(photos, teacher, f"landmarks.photos={{{start}: 6}}", "landmarks.each=8")
    draw = work.OrderWithLandmarks(Order(caches, {}, wanted.batch, 0), caches, wanted)
    assert [photos for _, photos in draw.kinds] == [8, 6]
    assert len(draw(3)) == wanted.batch + 8 + 6  # a landmark has four, so two are taken of a kind
    assert not torch.equal(draw(3), draw(4))


def test_landmarks_that_no_photo_has_are_refused(
    photos: Path, teacher: Path, tmp_path: Path
) -> None:
    with pytest.raises(SolarError, match=r"landmarks\.photos.* 'nowhere/'"):
        distill(contrasting(photos, teacher, "landmarks.photos={nowhere/: 4}"), run=tmp_path)
