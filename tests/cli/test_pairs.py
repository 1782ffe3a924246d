import json
from itertools import combinations
from pathlib import Path

import pytest
from PIL import Image
from support.running import refused, solar
from support.warped import toy_photo, turned

from solar.cli import app
from solar.errors import SolarError


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection") / "photos"
    first = toy_photo(0, (160, 120))
    pictures = {"a.png": first, "b/塔.png": turned(first)[0], "c d.png": toy_photo(1, (160, 120))}
    for name, picture in pictures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / name)
    return folder


NAMES = ["a.png", "b/塔.png", "c d.png"]


def run(*arguments: object) -> None:
    app(["pairs", *map(str, arguments)], standalone_mode=False)


def test_a_folder_becomes_a_list_of_pairs(photos: Path, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "pairs.txt"
    (photos / "torn.png").write_bytes(b"\x89PNG")
    try:
        done = solar("pairs", photos, "-o", output, "-k", 9, "--model", model, "--json")
    finally:
        (photos / "torn.png").unlink()
    told = {"pairs": 3, "photos": 3, "skipped": 1, "output": str(output)}
    assert json.loads(done.stdout) == told
    lines = output.read_text(encoding="utf-8").splitlines()
    written = {frozenset(line.replace("c d", "c_d").split(" ")) for line in lines}
    expected = combinations([name.replace(" ", "_") for name in NAMES], 2)
    assert written == {frozenset(pair) for pair in expected}
    assert len(lines) == 3
    assert "have spaces in their names" in done.stderr
    assert "torn.png" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.txt"]  # nothing unfinished


def test_pairs_of_one_s_own_become_a_database(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason='pip install "solar-retrieval[sfm]"')
    (tmp_path / "mine.txt").write_text("b/塔.png a.png\nc d.png a.png\n", encoding="utf-8")
    run(photos, "--pairs", tmp_path / "mine.txt", "--colmap", tmp_path / "photos.db", "--json")
    told = json.loads(capsys.readouterr().out)["database"]
    assert told == {"file": str(tmp_path / "photos.db"), "images": 3, "matched": 2, "verified": 1}
    with pycolmap.Database.open(tmp_path / "photos.db") as database:
        assert sorted(image.name for image in database.read_all_images()) == NAMES
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"mine.txt", "photos.db", "photos.db.pairs.txt"}


def test_a_reconstruction_tells_what_it_found(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pycolmap", reason='pip install "solar-retrieval[sfm]"')
    (tmp_path / "mine.txt").write_text("c d.png a.png\n")
    run(photos, "--pairs", tmp_path / "mine.txt", "--reconstruct", tmp_path / "model")
    assert "0 of 2 photos registered, 0 points" in capsys.readouterr().out
    assert {"pairs.txt", "database.db"} == {file.name for file in (tmp_path / "model").iterdir()}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), r"Name the list of pairs to write: -o pairs\.txt"),
        (("-o", "out.txt", "--pairs", "mine.txt"), "mine.txt names 'gone.png', but no photo"),
        (("-o", "mine.txt", "--pairs", "mine.txt"), "is the list to read"),
        (("-o", "out.txt", "--pairs", "mine.txt", "--verify"), "takes a list as it is"),
        (("-o", "out.txt", "-k", "0"), "Pairs need neighbours"),
        (("--colmap", "."), "is a folder: name the database"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_no_list(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    if "--colmap" in arguments:
        pytest.importorskip("pycolmap", reason='pip install "solar-retrieval[sfm]"')
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("a.png gone.png\n")
    with pytest.raises(SolarError, match=sentence):
        run(photos, *arguments)
    assert not Path("out.txt").exists()
    assert Path("mine.txt").read_text() == "a.png gone.png\n"


def test_an_empty_folder_and_a_damaged_file_end_with_code_2(tmp_path: Path) -> None:
    (tmp_path / "feats.h5").write_bytes(b"nothing")
    for source in (tmp_path, tmp_path / "feats.h5"):
        refused("pairs", source, "-o", tmp_path / "pairs.txt")
