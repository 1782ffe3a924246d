from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from solar.errors import SolarError
from solar.training.recipe import (
    differences,
    read_recipe,
    read_settings,
    write_recipe,
)


@dataclass(frozen=True)
class Loss:
    kind: Literal["triplet", "contrastive"] = "triplet"
    margin: float = 1.25


@dataclass(frozen=True)
class Recipe:
    data: str
    loss: Loss = field(default_factory=Loss)
    sizes: tuple[int, ...] = (1024,)
    sources: tuple[str, ...] = ()
    attention: dict[int, int] = field(default_factory=dict)
    ema: float | None = None
    flip: bool = False
    steps: int = 10


def written(folder: Path, text: str, name: str = "a.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_values_defaults_and_overrides_meet(tmp_path: Path) -> None:
    path = written(tmp_path, "task: x\ndata: photos\nloss: {margin: 1e-1}\nattention: {4: 4}\n")
    got = read_recipe(Recipe, path, ["loss.kind=contrastive", "sizes=[2, 3]", "ema=0.9"])
    expected = Recipe("photos", Loss("contrastive", 0.1), (2, 3), attention={4: 4}, ema=0.9)
    assert got == expected


@dataclass(frozen=True)
class Contrasting:
    loss: Loss = field(default_factory=lambda: Loss("contrastive", 0.7))


@pytest.mark.parametrize("text", ["{}", "loss:", "loss: {}"])
def test_a_section_that_says_nothing_is_the_recipes_default(tmp_path: Path, text: str) -> None:
    assert read_recipe(Contrasting, written(tmp_path, text)) == Contrasting()


def test_a_part_of_a_section_leaves_the_rest_at_the_recipes_default(tmp_path: Path) -> None:
    got = read_recipe(Contrasting, written(tmp_path, "{}"), ["loss.margin=0.5"])
    assert got.loss == Loss("contrastive", 0.5)


def test_a_recipe_extends_another_key_by_key(tmp_path: Path) -> None:
    written(tmp_path, "data: photos\nloss: {margin: 2, kind: contrastive}\n", "base.yaml")
    path = written(tmp_path, "extends: base.yaml\nloss: {margin: 3}\n")
    assert read_recipe(Recipe, path).loss == Loss("contrastive", 3.0)


def test_a_list_of_texts_may_be_its_only_one(tmp_path: Path) -> None:
    path = written(tmp_path, "data: photos\n")
    assert read_recipe(Recipe, path, ["sources=a.tar"]).sources == ("a.tar",)


def test_a_recipe_that_extends_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"\.yaml extends"):
        read_recipe(Recipe, written(tmp_path, "extends: a.yaml\n"))


@pytest.mark.parametrize(
    ("override", "nearest"),
    [("loss.margn=1", "loss.margin"), ("margin=1", "loss.margin"), ("losses.margin=1", "loss'")],
)
def test_an_unknown_key_names_the_nearest(tmp_path: Path, override: str, nearest: str) -> None:
    path = written(tmp_path, "data: photos\n")
    with pytest.raises(SolarError, match=f"nearest is '{nearest}"):
        read_recipe(Recipe, path, [override])


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("steps=2.5", "steps must be a whole number, not 2.5"),
        ("steps=true", r"steps.* True"),
        ("flip=1", "flip"),
        ("loss.kind=quadruplet", r"loss\.kind.* triplet, contrastive"),
        ("loss=3", "loss.* 3"),
        ("sizes=3", r"sizes.* 3"),
        ("sizes=big", r"sizes.* 'big'"),
        ("ema=often", r"ema.* 'often'"),
        ("steps", "key=value"),
        ("sizes=[1", "YAML"),
    ],
)
def test_a_wrong_value_is_one_sentence(tmp_path: Path, override: str, complaint: str) -> None:
    with pytest.raises(SolarError, match=complaint):
        read_recipe(Recipe, written(tmp_path, "data: photos\n"), [override])


def test_a_missing_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="setting data"):
        read_recipe(Recipe, written(tmp_path, "steps: 3\n"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="recipe"):
        read_recipe(Recipe, tmp_path / "b.yaml")


def test_a_resolved_recipe_reads_back(tmp_path: Path) -> None:
    recipe = Recipe("photos", Loss(margin=1e-6), (1, 2), attention={4: 4, 5: 2})
    write_recipe(recipe, tmp_path / "resolved.yaml")
    assert read_recipe(Recipe, tmp_path / "resolved.yaml") == recipe


def test_differences_are_named_by_their_dotted_key() -> None:
    one, other = Recipe("a"), Recipe("a", Loss(margin=1), attention={4: 4})
    assert differences(one, other) == ["attention", "attention.4", "loss.margin"]


def test_nothing_after_the_sign_is_empty_text(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("student: {attention: '45'}\n")
    assert read_settings(path, ["student.attention="]) == {"student": {"attention": ""}}
