import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.running import refused

from solar.asmk.build import KEYPOINTS, SIZE, AsmkSettings, Finder, build
from solar.asmk.codebook import Codebook
from solar.asmk.kernel import REGIONAL, Kernel, Postings, aggregate, aggregate_regions
from solar.asmk.regions import PhotoRegions, grid, read_regions
from solar.demo import toy
from solar.errors import SolarError
from solar.index import Index
from solar.index.add import add
from solar.local.features import local_features

HEADING = "path,x1,y1,x2,y2\n"


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.csv", "score,path,x1,y1,x2,y2\n.9,a.jpg,1,2,30,40\n,a.jpg,0,0,5,5\n.05,b.jpg,1,1,2,2"),
        (
            "r.json",
            '[{"path": "a.jpg", "box": [1, 2, 30, 40], "score": 0.1},'
            ' {"path": "a.jpg", "box": [0, 0, 5, 5]},'
            ' {"path": "b.jpg", "box": [1, 1, 2, 2], "score": 0.0999}]',
        ),
        ("r.json", '{"a.jpg": [[1, 2, 30, 40], [0, 0, 5, 5]], "b.jpg": []}'),
    ],
)
def test_boxes_are_read_from_csv_and_json(tmp_path: Path, name: str, content: str) -> None:
    regions = read_regions(written(tmp_path, name, content))
    assert regions.of("a.jpg", 100, 100) == [(1, 2, 30, 40), (0, 0, 5, 5)]
    assert regions.of("b.jpg", 100, 100) == regions.of("c.jpg", 100, 100) == []


def test_boxes_are_clipped_to_the_photo(tmp_path: Path) -> None:
    regions = read_regions(written(tmp_path, "r.csv", HEADING + "a.jpg,-5,10,900,50\n"))
    assert regions.of("a.jpg", 100, 40) == [(0, 10, 100, 40)]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("r.csv", HEADING + "a.jpg,1,2,30,nan\n", "line 2: Box '1,2,30,nan' is not four numbers"),
        ("r.csv", HEADING + "a.jpg,1,2,30,inf\n", "is not four numbers"),
        ("r.csv", HEADING + "\na.jpg,1,2,30\n", "line 3: Box"),
        ("r.csv", HEADING + "a.jpg,9,2,9,40\n", "line 2: Box '9,2,9,40' encloses nothing"),
        ("r.csv", HEADING + ",1,2,30,40\n", "needs the path of its photo"),
        ("r.csv", "path,x1,y1,x2,y2,score\na.jpg,1,2,30,40,high\n", "'high' is not a number"),
        ("r.csv", "path,x1,y1,x2,y2,score\na.jpg,1,2,30,40,nan\n", "'nan' is not a number"),
        ("r.csv", "a.jpg,1,2,30,40\n", "has no heading"),
        ("r.csv", "", "has no heading"),
        ("r.json", "{", "is not JSON"),
        ("r.json", "3", "holds no regions"),
        ("r.json", "[[1, 2, 3, 4]]", "holds no regions"),
        ("r.json", '{"a.jpg": [7]}', "box 1 of a.jpg: a box must be four numbers"),
        ("r.json", '{"a.jpg": [[1, 2, 3, "x"]]}', "is not four numbers"),
        ("r.json", '[{"box": [1, 2, 3, 4]}]', "entry 1: a region needs the path"),
        ("r.json", '[{"path": "a.jpg", "box": [1, 2, 3, 4], "score": []}]', "is not a number"),
    ],
)
def test_a_bad_file_is_told_in_one_sentence(
    tmp_path: Path, name: str, content: str, complaint: str
) -> None:
    with pytest.raises(SolarError, match=complaint):
        read_regions(written(tmp_path, name, content))


def test_a_file_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"\xff\xfe\x00path")
    with pytest.raises(SolarError, match="is not a CSV file in UTF-8"):
        read_regions(tmp_path / "r.csv")
    with pytest.raises(SolarError, match="read"):
        read_regions(tmp_path / "none.json")


def test_the_grid_has_thirteen_boxes_that_reach_every_border() -> None:
    boxes = list(grid(300, 120))
    assert len(boxes) == 13
    np.testing.assert_allclose(boxes[0], (0, 0, 200, 80))
    np.testing.assert_allclose(boxes[3], (100, 40, 300, 120))
    np.testing.assert_allclose(boxes[8], (75, 30, 225, 90))
    np.testing.assert_allclose(boxes[-1], (150, 60, 300, 120))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy photos, and an index of photos in the regions of the grid."""
    home = tmp_path_factory.mktemp("regions")
    toy.write(home / "photos", landmarks=5, views=3)
    settings = AsmkSettings(words=256, regions="grid")
    build([home / "photos"], home / "grid.asmk", settings).index.close()
    return home


def test_the_descriptors_of_a_region_are_those_inside(home: Path) -> None:
    photo = home / "photos" / "landmark-000" / "view-000.jpg"
    features, box = local_features(photo), (100, 60, 220, 180)
    whole, boxed = PhotoRegions({"a": [box]}).descriptors("a", features)
    assert np.array_equal(whole, features.descriptors)
    inside = local_features(photo, box=box).descriptors
    assert 10 < len(boxed) < len(whole)
    assert {row.tobytes() for row in boxed} == {row.tobytes() for row in inside}


def test_plain_queries_find_photos_in_regions(home: Path) -> None:
    """By chance a query finds another view of its landmark first one time in seven."""
    first = 0
    with Index.open(home / "grid.asmk") as index:
        assert index.info()["settings"]["regions"] == "grid"
        assert index.kernel == REGIONAL
        for photo in sorted((home / "photos").rglob("*.jpg")):
            name = str(photo.relative_to(home / "photos"))
            [best] = index.search(name, k=1)
            first += best.path.split("/")[0] == name.split("/")[0]
    assert first >= 13


def test_scores_are_sums_over_shared_words(home: Path) -> None:
    photo = home / "photos" / "landmark-001" / "view-001.jpg"
    with Index.open(home / "grid.asmk") as index:
        [best] = index.search(photo, k=1, include_self=True)
        codebook = index.engine.codebook
        finder = Finder(index.local, KEYPOINTS, SIZE, home / "cache")
        regions = PhotoRegions().descriptors("", finder.features(photo.name, photo))
        stored = aggregate_regions(regions, codebook)
        asked = aggregate(
            local_features(photo, size=SIZE, keypoints=KEYPOINTS).descriptors, codebook
        )
        wanted = Postings.gather([stored], codebook.blocks).scores(asked, Kernel().table(128))
        assert best.score == pytest.approx(float(wanted[0]), rel=1e-5)
        assert index.signatures(photo).words.tolist() == asked.words.tolist()


def test_boxes_of_photos_that_are_added_and_changed(home: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    shutil.copytree(home / "photos" / "landmark-000", photos)
    name = "view-000.jpg"
    boxes = written(tmp_path, "r.json", json.dumps({name: [[100, 60, 220, 180]]}))
    made = AsmkSettings(codebook=home / "grid.asmk", regions=boxes)
    build([photos], tmp_path / "i", made).index.close()

    def scores() -> dict[str, float]:
        with Index.open(tmp_path / "i") as index:
            hits = index.search(photos / name, k=9, box=(100, 60, 220, 180), include_self=True)
        return {hit.path: hit.score for hit in hits}

    before = scores()
    other = written(tmp_path, "other.csv", HEADING + f"{name},0,0,50,50\n")
    add([photos], tmp_path / "i", describing={"regions": other}).index.close()
    after = scores()
    assert after.keys() == before.keys()
    assert [p for p in after if after[p] != before[p]] == [name]  # the others were not touched
    shutil.copy(home / "photos" / "landmark-001" / "view-000.jpg", photos / "new.jpg")
    add([photos], tmp_path / "i").index.close()  # a photo without boxes is one region
    assert len(Index.open(tmp_path / "i")) == len(before) + 1
    with pytest.raises(SolarError, match="grid"):
        add([photos], tmp_path / "i", describing={"regions": "grid"})
    unknown = written(tmp_path, "unknown.csv", HEADING + "far.jpg,0,0,1,1\n")
    with pytest.raises(SolarError, match="among the photos"):
        add([photos], tmp_path / "i", describing={"regions": unknown})
    with pytest.raises(SolarError, match="boxes"):
        add([photos], home / "grid.asmk", describing={"regions": boxes})


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("landmark-000/view-000.jpg,5000,0,6000,10", "lies outside the photo"),
        ("rome/1.jpg,0,0,10,10", "rome/1.jpg, which is not among the photos"),
    ],
)
def test_boxes_that_do_not_fit_the_photos(
    home: Path, tmp_path: Path, line: str, complaint: str
) -> None:
    boxes = written(tmp_path, "r.csv", HEADING + line)
    settings = AsmkSettings(codebook=home / "grid.asmk", regions=boxes)
    with pytest.raises(SolarError, match=complaint):
        build([home / "photos"], tmp_path / "i", settings)
    assert not (tmp_path / "i").exists()


def test_a_codebook_of_other_dimensions(home: Path, tmp_path: Path) -> None:
    words = np.eye(4, 64, dtype=np.float32)
    codebook = Codebook(words, {"local": "rootsift", "fingerprint": "rootsift"})
    codebook.save(tmp_path / "c.safetensors")
    settings = AsmkSettings(codebook=tmp_path / "c.safetensors", regions="grid")
    with pytest.raises(SolarError, match="descriptors of length 64"):
        build([home / "photos"], tmp_path / "i", settings)


def test_the_command_says_what_is_wrong_in_one_sentence(home: Path, tmp_path: Path) -> None:
    boxes = written(tmp_path, "r.csv", HEADING + "landmark-000/view-000.jpg,0,0,0,9\n")
    build_it = ("index", "build", home / "photos", "-o", tmp_path / "i", "--regions", boxes)
    for options, complaint in (
        (["--method", "asmk"], "line 2: Box '0,0,0,9' encloses nothing"),
        ([], "--regions needs --method asmk"),
    ):
        assert complaint in refused(*build_it, *options)
