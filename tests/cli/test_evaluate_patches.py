import json
from pathlib import Path

import numpy as np
import pytest
from support.patch_sets import (
    strips,
    write_descriptors,
    write_phototour,
    write_sequence,
    write_subset,
)
from support.running import refused, solar

from solar.datasets.patches.hpatches import read_hpatches, write_hpatches
from solar.datasets.patches.phototour import PatchPairs, read_phototour
from solar.evaluation.protocols.hpatches import evaluate_hpatches
from solar.evaluation.protocols.patch_describers import describe_patches, describe_sift
from solar.models import PatchNet, save


def test_a_set_is_cut_measured_and_kept(tmp_path: Path) -> None:
    for number in range(2):
        write_sequence(tmp_path / "photos" / f"v_{number}", seed=number)
    arguments = ("--make", tmp_path / "photos", "-o", tmp_path / "cut")
    few = ("--tasks", "matching", "--keypoints", "20", "--verbose")
    out = solar("evaluate-patches", "hpatches", "sift", "rootsift", *arguments, *few).stdout
    data = read_hpatches(tmp_path / "cut")
    found = evaluate_hpatches(data, describe_sift, tasks=["matching"])
    rows = [line.split() for line in out.splitlines()]
    assert f"{100 * found.mean():.2f}" == next(row for row in rows if row[:1] == ["sift"])[1]
    assert [row[0] for row in rows if len(row) > 1 and row[1] == "rootsift"] == ["v_0:", "v_1:"]


def test_models_methods_and_files_share_a_table(tmp_path: Path) -> None:
    data = strips(2, 5)
    write_hpatches(data, tmp_path / "set")
    network = PatchNet().eval()
    save(network, tmp_path / "net.safetensors")
    write_descriptors(data, lambda p: p[:, ::9, 5].astype(np.float32), tmp_path / "peer")
    found = json.loads(
        solar(
            *("evaluate-patches", "hpatches", f"ours={tmp_path / 'net.safetensors'}", "sift"),
            *("--root", tmp_path / "set", "--descriptors", tmp_path / "peer"),
            *("--tasks", "retrieval", "--average", "matlab", "--json"),
        ).stdout
    )
    assert list(found) == ["ours", "sift", "peer"]
    expected = evaluate_hpatches(
        data, lambda p: describe_patches(network, p), average="matlab", tasks=["retrieval"]
    )
    assert found["ours"]["retrieval"]["mAP"] == pytest.approx(100 * expected.mean("retrieval"))
    assert found["sift"]["retrieval"]["lists"].startswith("generated")


def test_phototour_prints_a_column_a_subset(tmp_path: Path) -> None:
    for subset in ("liberty", "yosemite"):
        folder = tmp_path / subset
        patches = write_subset(folder, points=20, pairs=30)
        data = read_phototour(folder)
        pairs = data.pairs(30)
        # The command reads the published list of 100,000 pairs.
        many = PatchPairs(
            *(np.resize(column, 100_000) for column in (pairs.left, pairs.right, pairs.same))
        )
        write_phototour(folder, patches, data.points, many)
    arguments = ("evaluate-patches", "phototour", "sift", "--root", tmp_path)
    found = json.loads(solar(*arguments, "--subset", "liberty,yosemite", "--json").stdout)
    assert list(found["sift"]) == ["liberty", "yosemite"]
    assert 0 <= found["sift"]["yosemite"]["FPR95"] <= 100
    assert found["sift"]["liberty"]["pairs"] == 100_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hpatches", "sift"), "Say where the patches are with --root"),
        (("hpatches", "--root", "."), "Say what to evaluate"),
        (("hpatches", "surf", "--root", "."), "surf"),
        (("phototour", "sift"), "Say where the PhotoTour subsets are"),
        (("hpatches", "--root", ".", "--make", ".", "sift"), "give one of the two"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("evaluate-patches", *arguments)
