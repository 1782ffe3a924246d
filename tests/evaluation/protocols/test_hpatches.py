import json
from pathlib import Path

import numpy as np
import pytest
from support.patch_sets import strips, write_descriptors

from solar.datasets.patches.hpatches import STRIPS, HPatches, read_descriptors
from solar.errors import SolarError
from solar.evaluation.protocols.hpatches import evaluate_hpatches
from solar.evaluation.protocols.patch_tasks import match


def describe(patches: np.ndarray) -> np.ndarray:
    """A few pixels: good enough to find some, bad enough to miss some."""
    return patches[:, 8::24, 8::24].reshape(len(patches), -1).astype(np.float32)


@pytest.fixture(scope="module")
def data() -> HPatches:
    return strips(3, 12)


def test_matching_is_the_mean_over_sequences_and_photos(data: HPatches) -> None:
    found = evaluate_hpatches(data, describe, tasks=["matching"])
    for noise in "eht":
        expected = [
            match(describe(data.strip(name, "ref")), describe(data.strip(name, f"{noise}{image}")))[
                0
            ]
            for name in data.names
            for image in range(1, 6)
        ]
        assert found.levels("matching")[noise] == pytest.approx(np.mean(expected))
    assert found.mean() == pytest.approx(np.mean(list(found.levels("matching").values())))
    assert found.tasks == ("matching",)


def test_tougher_patches_score_lower_in_every_task(data: HPatches) -> None:
    found = evaluate_hpatches(data, describe, pairs=2000)
    for task in ("matching", "verification", "retrieval"):
        easy, hard, tough = found.levels(task).values()
        assert 1 >= easy >= hard > tough > 0


def test_a_perfect_descriptor_scores_everything(data: HPatches) -> None:
    perfect = {
        name: {
            kind: np.eye(36, dtype=np.float32)[12 * number : 12 * number + 12] for kind in STRIPS
        }
        for number, name in enumerate(data.names)
    }
    found = evaluate_hpatches(perfect, pairs=500)
    assert [found.mean(task) for task in found.tasks] == pytest.approx([1, 1, 1])


def test_generated_lists_are_said_to_be_and_do_not_depend_on_the_descriptor(data: HPatches) -> None:
    first = evaluate_hpatches(data, describe, pairs=300)
    again = evaluate_hpatches(data, describe, pairs=300)
    assert first == again
    assert first.lists["verification"] == "generated: 300 pairs per kind"
    assert first.lists["retrieval"] == "generated: 12 queries, 24 distractors"
    assert evaluate_hpatches(data, describe, pairs=300, seed=1) != first


@pytest.mark.parametrize(
    ("tasks", "splits", "given"),
    [("", "", ""), ("tasks", "tasks/splits", ""), ("tasks", "tasks/splits", "tasks")],
    ids=["one folder", "a clone of the benchmark", "its tasks"],
)
def test_published_lists_and_splits_are_used(
    data: HPatches, tmp_path: Path, tasks: str, splits: str, given: str
) -> None:
    (tmp_path / splits).mkdir(parents=True, exist_ok=True)
    (tmp_path / splits / "splits.json").write_text(json.dumps({"a": {"test": ["v_2", "v_0"]}}))
    head = "s1,t1,idx1,s2,t2,idx2\n"
    for name, text in (
        ("verif_pos", head + "v_0,0,1,v_0,1,1\n"),
        ("verif_neg_inter", head + "v_0,0,1,v_2,1,1\n" * 5),
        ("verif_neg_intra", head + "v_0,0,1,v_0,1,2\n" * 5),
        ("retr_queries", "s,idx\nv_2,3\n"),
        ("retr_distractors", "s,idx\nv_0,4\nv_2,5\nv_0,6\n"),
    ):
        (tmp_path / tasks / f"{name}_split-a.csv").write_text(text)
    found = evaluate_hpatches(data, describe, split="a", lists=tmp_path / given)
    assert list(found.matching) == ["v_2", "v_0"]
    assert found.lists == {
        "verification": "published: 1 pairs per kind",
        "retrieval": "published: 1 queries, 3 distractors",
    }
    assert list(found.retrieval["e"]) == [100]


def test_descriptors_in_files_score_as_the_patches_they_are_of(
    data: HPatches, tmp_path: Path
) -> None:
    write_descriptors(data, describe, tmp_path)
    found = evaluate_hpatches(
        read_descriptors(tmp_path), pairs=300, tasks=["matching", "verification"]
    )
    expected = evaluate_hpatches(data, describe, pairs=300, tasks=["matching", "verification"])
    assert found == expected


def test_the_other_average_differs_and_is_named(data: HPatches) -> None:
    plain = evaluate_hpatches(data, describe, tasks=["matching"])
    other = evaluate_hpatches(data, describe, tasks=["matching"], average="matlab")
    assert other.mean() > plain.mean()
    assert other.to_dict()["average"] == "matlab"


def test_the_dictionary_is_in_percent_and_is_json(data: HPatches) -> None:
    found = evaluate_hpatches(data, describe, pairs=300)
    report = json.loads(json.dumps(found.to_dict()))
    assert report["matching"]["mAP"] == pytest.approx(100 * found.mean())
    assert report["matching"]["sequences"]["v_1"]["hard"] == pytest.approx(
        100 * found.matching["v_1"]["h"][0]
    )
    assert report["verification"]["negatives"]["inter"]["AUC"]["tough"] == pytest.approx(
        100 * found.verification["t"]["inter"][0]
    )
    assert list(report["retrieval"]["pools"]) == ["100"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ["counting"]}, "'counting'"),
        ({"average": "finite"}, "'finite'"),
        ({"split": "a"}, "splits.json"),
    ],
)
def test_mistakes_are_explained(data: HPatches, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SolarError, match=message):
        evaluate_hpatches(data, describe, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", ["verification", "retrieval"])
def test_one_sequence_is_enough_for_matching_alone(task: str) -> None:
    one = strips(1, 5)
    assert evaluate_hpatches(one, describe, tasks=["matching"]).mean() > 0
    with pytest.raises(SolarError, match="two sequences"):
        evaluate_hpatches(one, describe, tasks=[task])
