import csv
import json
from pathlib import Path

import pytest
from support.placed_photos import EXPECTED, placed_index, placed_photos
from support.running import solar


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    placed_photos(folder / "photos")
    return placed_index(folder / "photos", folder / "photos.solar")


def test_groups_lie_beside_the_index_and_come_as_a_table_and_json(
    index: Path, tmp_path: Path
) -> None:
    table = tmp_path / "albums.csv"
    told = json.loads(solar("groups", index, "--csv", table, "--json").stdout)
    assert sorted(sorted(group["photos"]) for group in told) == EXPECTED
    assert all(group["cover"] == group["photos"][0] for group in told)
    stored = json.loads((index.parent / "photos.groups.json").read_text())
    assert [group["cover"] for group in stored["groups"]] == [group["cover"] for group in told]
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [name for group in told for name in group["photos"]]
    assert [row["name"] for row in rows if row["cover"] == "yes"] == [one["cover"] for one in told]
    assert sorted(file.name for file in index.parent.iterdir()) == [
        "photos",
        "photos.groups.json",
        "photos.solar",
    ]


def test_mistakes_are_told_in_a_sentence(index: Path, tmp_path: Path) -> None:
    for arguments, sentence in (
        ((index, "-o", tmp_path), "is a folder"),
        ((index, "-o", tmp_path / "a", "--csv", tmp_path / "a"), "name two files"),
        ((tmp_path / "nothing.solar",), "nothing.solar"),
        ((index, "--model", "solar-r18", "-o", tmp_path / "g.json"), "already holds embeddings"),
    ):
        assert sentence in solar("groups", *arguments, expect=2).stderr
