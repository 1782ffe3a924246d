import json
from pathlib import Path

import numpy as np
import pytest
from support.running import refused, solar
from support.teachers import torchscript

from solar.demo import toy
from solar.training.run import read_metrics

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    toy.write(folder, landmarks=4, views=4, size=(120, 90))
    return folder


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torchscript(tmp_path_factory.mktemp("teacher") / "teacher.ts")


def test_a_recipe_photos_and_a_teacher_give_a_student_that_describes(
    photos: Path, teacher: Path, tmp_path: Path
) -> None:
    student, run = tmp_path / "student.safetensors", tmp_path / "run"
    command = ("distill", RECIPES / "distill-toy.yaml", photos, "--teacher", teacher)
    command = (*command, "--attention", 5, "-o", student, "--run", run, "batch=4", "log_every=1")
    stopped = solar(*command, "seconds=0.01", "steps=2", "--json")
    assert json.loads(stopped.stdout)["finished"] is False
    done = solar(*command, "steps=2", "--resume", "--json")
    summary = json.loads(done.stdout)
    assert summary["finished"] is True
    assert summary["photos"] == 16
    assert summary["model"] == str(student)
    assert [line["step"] for line in read_metrics(run)] == [1, 2]
    out = tmp_path / "out.npy"
    solar("describe", next(photos.rglob("*.jpg")), "--model", student, "--size", 96, "-o", out)
    assert np.load(out).shape == (1, 512)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--teacher", "x.ts"), "No photos are given"),
        (("photos",), "No teacher is given"),
        (("photos", "task=retrieval"), "is a recipe for retrieval: give it to solar train"),
        (("photos", "--teacher", "x.ts", "-o", "x.pth"), "must end in .safetensors"),
        (("photos", "--teacher", "x.ts", "step=3"), "the nearest is 'steps'"),
        (("photos", "--teacher", "none.safetensors"), "There is no file none.safetensors"),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    recipe = RECIPES / "distill-toy.yaml"
    assert complaint in refused("distill", recipe, *arguments, "--run", tmp_path / "run")


def test_the_recipe_for_a_gpu_is_a_recipe() -> None:
    from solar.training.distill.recipe import command_recipe

    recipe = command_recipe([str(RECIPES / "distill-r18.yaml"), "photos"], {"teacher": "t.ts"})
    assert recipe.student.attention == "45"
