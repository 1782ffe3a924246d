"""Every table and figure on toy datasets in the layout of the real ones, training included."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
import torch
from PIL import Image
from support import toy_paper
from support.drawn import drawn_checkpoint
from support.toy_paper import SMALL

import solar
from solar.errors import SolarError
from solar.evaluation.paper.tables import SCENES, TABLE_2, UBC
from solar.models import RetrievalConfig, RetrievalNet
from solar.reproduction.jobs import TARGETS, averaged

EVALUATED: dict[str, Any] = {"size": 32, "scales": (1.0,)}
BASELINE = "ResNet101-GeM [SOTA]"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_paper.write(tmp_path_factory.mktemp("paper") / "data")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A folder for trained networks, which is gone afterwards: they are large."""
    yield tmp_path / "run"
    shutil.rmtree(tmp_path / "run")


@pytest.fixture(scope="module")
def gem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = RetrievalNet(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))
    path = tmp_path_factory.mktemp("models") / "gem.pth"
    torch.save(drawn_checkpoint(net), path)
    return path


def test_the_whole_of_table_2_is_trained_and_measured(root: Path, gem: Path, run: Path) -> None:
    rows = [f"{BASELINE}={gem}", *(m.recipe for m in TABLE_2.methods if m.recipe)]
    how = {"root": root, "run": run, "rows": rows, "changes": SMALL["table2"], **EVALUATED}
    found = solar.reproduce("table2", **how)
    measured = {row["method"]: row["measured"] for row in found.data["rows"]}
    assert [*measured] == [m.name for m in TABLE_2.methods]
    for results in measured.values():
        [(_, values)] = results.items()
        assert {*values} == {"roxford5k", "rparis6k"}
        assert 0 < values["roxford5k"]["hard"]["mAP"] < 100
    text = (run / "table2.txt").read_text()
    assert "→ soa45-r101-gl18" in text
    assert {path.suffix for path in found.files} == {".txt", ".md", ".tex", ".json"}
    assert json.loads((run / "table2.json").read_text()) == found.data
    trained = (run / "soa4-r101-gl18-0" / "best.safetensors").stat().st_mtime_ns
    again = solar.reproduce("table2", **how)
    assert again.data == found.data
    assert (run / "soa4-r101-gl18-0" / "best.safetensors").stat().st_mtime_ns == trained
    with pytest.raises(SolarError, match=r"other settings.*run="):
        solar.reproduce("table2", **{**how, "changes": (*SMALL["table2"], "epochs=2")})


def test_the_whole_of_the_table_of_patches_is_trained_and_measured(root: Path, run: Path) -> None:
    how = {"root": root, "run": run, "changes": SMALL["ubc"]}
    found = solar.reproduce("ubc", seeds=1, **how)
    trained = [row for row in found.data["rows"] if row["measured"]]
    assert [row["method"] for row in trained] == [m.name for m in UBC.methods[1:]]
    for row in trained:
        [(_, values)] = row["measured"].items()
        cells = [values[test][scene] for scene in SCENES for test in SCENES if test != scene]
        rates = [cell["FPR95"] for cell in cells]
        assert len({0, *rates}) > 2
        assert values[""]["mean"]["FPR95"] == pytest.approx(mean(rates))
    # Another seed is trained beside those that are there.
    name = UBC.methods[1].name
    two = solar.reproduce("ubc", seeds=2, rows=[name], **how)
    [row] = [row for row in two.data["rows"] if row["measured"]]
    [(recipe, values)] = row["measured"].items()
    notes = [json.loads((run / f"{recipe}-{n}" / "trained.json").read_text()) for n in (0, 1)]
    rates = [note["result"]["FPR95_yosemite"] for note in notes]
    cell = values["yosemite"]["liberty"]
    assert cell == {"FPR95": pytest.approx(mean(rates)), "FPR95 std": pytest.approx(stdev(rates))}
    assert f"{cell['FPR95']:.2f} ± {cell['FPR95 std']:.2f}" in str(two)


def test_bars_are_of_the_network_with_the_lowest_rate(root: Path, run: Path) -> None:
    rows = ["solar-local-345-liberty", "solar-local-none-liberty"]
    how = {"root": root, "run": run, "changes": SMALL["ubc"], "rows": rows}
    found = solar.reproduce("figure6", seeds=2, **how)
    assert {*found.data["mAP"]} == {"345", "none"}
    notes = {n: json.loads((run / f"{rows[0]}-{n}" / "trained.json").read_text()) for n in (0, 1)}
    best = min(notes, key=lambda n: notes[n]["result"]["FPR95"])
    kept = json.loads((run / f"{rows[0]}-{best}" / "hpatches.json").read_text())
    assert found.data["mAP"]["345"]["matching"] == kept["matching"]["mAP"]
    [gain] = found.data["retrieval gains"]
    bars = found.data["mAP"]
    assert gain["published"] == 1.75
    assert gain["measured"] == bars["345"]["retrieval"] - bars["none"]["retrieval"]
    assert Image.open(run / "figure6.png").width > 300


@pytest.mark.parametrize("target", ["figure1", "figure3"])
def test_attention_of_queries_is_drawn(root: Path, gem: Path, tmp_path: Path, target: str) -> None:
    queries = ["query_2"] if target == "figure1" else ["query_0", "query_3"]
    how = {"root": root, "run": tmp_path, "rows": [str(gem)], "queries": queries}
    found = solar.reproduce(target, **how)
    assert [Path(photo).stem for photo in found.data["photos"]] == queries
    assert Image.open(tmp_path / f"{target}.png").width > 300


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_a_plan(tmp_path: Path, target: str) -> None:
    found = solar.reproduce(target, root=tmp_path, seeds=1, dry_run=True)
    assert not any(tmp_path.iterdir())
    assert all(step["seconds"] > 0 for step in found.data if step["step"].startswith("train"))
    sources = {step["source"] for step in found.data if not step["done"]}
    wanted = {"table2": "gl18", "ubc": "phototour", "figure6": "hpatches", "figure4": "roxford5k"}
    if target in wanted:
        assert f"solar data get {wanted[target]} --root {tmp_path}" in sources
        assert sum(step["bytes"] for step in found.data) > 1e9
    if target in ("speed", "figure1", "figure3"):
        [(size, work)] = [
            (step["bytes"], step["seconds"])
            for step in found.data
            if step["step"] == "weights of solar-r101"
        ]
        assert size > 1e8
        assert work == 0


def test_what_is_missing_is_named_with_the_command_that_gets_it(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="solar data get phototour"):
        solar.reproduce("ubc", root=tmp_path, run=tmp_path)


def test_rankings_are_of_two_models(root: Path, tmp_path: Path) -> None:
    rows = ["a=solar-r18", "b=solar-r18", "c=solar-r18"]
    with pytest.raises(SolarError, match="one model or two"):
        solar.reproduce("figure4", root=root, run=tmp_path, rows=rows)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("table3", {}, "table1, table2"),
        ("ubc", {"rows": ["SOA7"]}, r"'SOA7'.*SOSNet\+"),
        ("table2", {"rows": ["SOA7"]}, "'SOA7'.*ResNet101"),
        ("table1", {"rows": ["AlexNet-GeM"]}, "AlexNet-GeM=MODEL"),
        ("table2", {"sets": ["photos"]}, "photos.*roxford5k"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, target: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SolarError, match=message):
        solar.reproduce(target, root=tmp_path, dry_run=True, **options)


def test_rows_of_published_weights_alone(tmp_path: Path) -> None:
    found = solar.reproduce("table1", root=tmp_path, train=False, dry_run=True)
    steps = [step["step"] for step in found.data]
    assert not any(step.startswith("train") or step == "gl18" for step in steps)
    assert sum("describe" in step for step in steps) == 4


def test_weights_that_a_training_starts_from_are_in_the_plan(tmp_path: Path) -> None:
    found = solar.reproduce("table2", root=tmp_path, rows=["soa4-r101-gl18"], dry_run=True)
    sizes = {step["step"]: step["bytes"] for step in found.data}
    assert sizes["weights of gem-r101-gl18"] > 1e8
    assert sizes["weights of whiten-r101-gem-sfm120k"] > 1e7
    assert not any("describe" in step for step in sizes)


def test_the_mean_of_networks_has_its_deviation() -> None:
    one, two = ({"roxford5k": {"hard": {"mAP": value}}} for value in (40.0, 44.0))
    found = averaged([one, two])
    assert found["roxford5k"]["hard"] == {"mAP": 42, "mAP std": pytest.approx(2 * 2**0.5)}
    assert averaged([one]) == one
