from types import SimpleNamespace

import numpy as np
import pytest

from solar.errors import SolarError
from solar.evaluation.described_photos import ModelDescriber
from solar.evaluation.paper import tables
from solar.evaluation.paper.tables import TABLE_1, TABLE_2, UBC
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.evaluation.table_text import to_text
from solar.models import RetrievalNet, zoo
from solar.training.recipe import bundled_recipes


def result(mean: float) -> dict:
    levels = ("easy", "medium", "hard")
    return {level: {"mAP": mean + i, "mP@10": 90.0 + i} for i, level in enumerate(levels)}


def test_the_published_rows_are_whole_and_in_the_right_columns() -> None:
    assert [len(table.columns) for table in (TABLE_1, TABLE_2)] == [16, 4]
    for table in (TABLE_1, TABLE_2):
        assert all(len(method.values) == len(table.columns) for method in table.methods)
    rows = {method.model: TABLE_1.published(method) for method in TABLE_1.methods}
    solar, retrained = rows["solar-r101"], rows["solar-r101-gldv2"]
    assert solar["roxford5k"] == {
        "medium": {"mAP": 69.9, "mP@10": 86.7},
        "hard": {"mAP": 47.9, "mP@10": 63.0},
    }
    assert solar["rparis6k+1m"]["hard"] == {"mAP": 33.4, "mP@10": 81.6}
    reported = zoo.find("solar-r101-gldv2").reported
    assert reported == {
        name: {level: values["mAP"] for level, values in levels.items()}
        for name, levels in retrained.items()
    }


def test_the_table_of_patches_is_as_printed() -> None:
    assert len(UBC.columns) == 7
    assert all(len(method.values) == 7 for method in UBC.methods)
    rows = {method.name: UBC.published(method) for method in UBC.methods}
    assert rows["SOSNet"]["yosemite"]["notredame"] == {"FPR95": 1.25}
    assert rows["SOSNet+, SOA3,4,5"]["notredame"]["yosemite"] == {"FPR95": 0.71, "FPR95 std": 0.02}
    text = to_text(tables.to_table(UBC, tables.fill(UBC, {}))).splitlines()
    [line] = [line for line in text if line.startswith("SOSNet+, SOA6")]
    assert "1.30 ± 0.02" in line
    assert line.endswith("1.38 ± 0.05")


def test_every_recipe_of_a_row_is_bundled() -> None:
    recipes = [m.recipe for t in (TABLE_1, TABLE_2, UBC) for m in t.methods if m.recipe]
    assert len(recipes) == 3 + 5 + 10
    assert set(recipes) <= bundled_recipes().keys()


def test_what_a_row_cannot_be_compared_with_stands_below_the_table() -> None:
    lines = tables.fill(TABLE_1, {"solar-r101-gldv2": {"roxford5k": result(79.0)}})
    text = to_text(tables.to_table(TABLE_1, lines)).splitlines()
    place = next(i for i, line in enumerate(text) if line.startswith("ResNet101+SOLAR [GLDv2]"))
    assert text[place + 1].split()[:3] == ["→", "solar-r101-gldv2", "80.00"]
    said = "GLDv2-clean shares 36 of 70 ROxf and 38 of 70 RPar query landmarks"
    assert said in text[-1]
    notes = [row.get("note", "") for row in tables.to_json(TABLE_1, lines)["rows"]]
    assert any(said in note for note in notes)
    assert said not in to_text(tables.to_table(TABLE_2, tables.fill(TABLE_2, {})))


def test_both_tables_agree_where_they_share_a_row() -> None:
    first = {method.name: TABLE_1.published(method) for method in TABLE_1.methods}
    for method in TABLE_2.methods:
        if method.name in first:
            mine = TABLE_2.published(method)
            for name, levels in mine.items():
                for level, values in levels.items():
                    assert first[method.name][name][level]["mAP"] == values["mAP"]


@pytest.mark.parametrize("name", ["solar-r101", "gem-r101-gl18"])
def test_the_zoo_reports_what_the_paper_prints(name: str) -> None:
    [method] = [method for method in TABLE_2.methods if method.model == name]
    for dataset, levels in TABLE_2.published(method).items():
        for level, values in levels.items():
            reported = zoo.find(name).reported[dataset][level]
            assert reported == pytest.approx(values["mAP"], abs=0.06)


def test_measured_numbers_stand_below_the_published_ones() -> None:
    measured = {"solar-r101": {"roxford5k": result(68.0)}, "mine": {"rparis6k": result(10.0)}}
    lines = to_text(tables.to_table(TABLE_2, tables.fill(TABLE_2, measured))).splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("ResNet101+SOLAR"))
    assert lines[place].split() == ["ResNet101+SOLAR", "69.9", "81.6", "47.9", "64.5"]
    assert lines[place + 1].split() == ["→", "solar-r101", "69.00", "70.00"]
    assert lines[place + 1].index("70.00") + 5 == lines[place].index("47.9") + 4
    assert lines[place + 3].split() == ["→", "mine", "11.00", "12.00"]


def test_a_method_is_recognised_by_its_printed_name() -> None:
    lines = tables.fill(TABLE_2, {"resnet101+soa4": {"roxford5k": result(60.0)}})
    [line] = [line for line in lines if line.measured]
    assert line.method == "ResNet101+SOA4"
    row = tables.to_json(TABLE_2, lines)["rows"][2]
    assert row["published"]["roxford5k"]["hard"]["mAP"] == 45.7
    assert row["measured"]["resnet101+soa4"]["roxford5k"]["hard"]["mAP"] == 62.0


@pytest.mark.parametrize(("count", "called"), [(1_001_001, "1m"), (24, "24")])
def test_each_set_is_measured_with_and_without_distractors(
    monkeypatch: pytest.MonkeyPatch, tiny: RetrievalNet, count: int, called: str
) -> None:
    asked = []

    def described(
        name: str, describe: ModelDescriber, settings: EvaluationSettings
    ) -> SimpleNamespace:
        assert (describe.model, settings.size) == (tiny, 32)
        asked.append((name, settings.distractors, settings.cache))
        found = Evaluation(("q",), {"medium": {"AP": np.array([len(asked) / 10])}})
        others = settings.distractors and SimpleNamespace(rows=range(count))
        return SimpleNamespace(measure=lambda how: found, distractors=others)

    monkeypatch.setattr(tables, "open_collection", described)
    found = tables.measure_sets(
        ("roxford5k", "rparis6k"), distractors="million", model=tiny, size=32
    )
    assert [(name, more) for name, more, _ in asked] == [
        ("roxford5k", None),
        ("roxford5k", "million"),
        ("rparis6k", None),
        ("rparis6k", "million"),
    ]
    assert len({cache for *_, cache in asked}) == 1  # photos are described once
    assert found[f"rparis6k+{called}"]["medium"]["mAP"] == pytest.approx(40)
    text = to_text(tables.to_table(TABLE_2, tables.fill(TABLE_2, {"mine": found})))
    assert ("RPar+1M" in text) == (count == 1_001_001)
    assert f"RPar+{called.upper()}" in text


def test_a_set_of_ones_own_is_in_no_table() -> None:
    with pytest.raises(SolarError, match="no table"):
        tables.measure_sets(("photos",))
