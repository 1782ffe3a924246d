import csv
import json
import re
import subprocess
from pathlib import Path

import pytest
import torch
from PIL import Image
from support.running import HIT_FIELDS, command, environment, help_of, refused

from solar.demo import toy
from solar.models import RetrievalConfig, RetrievalNet, save


def solar(
    *arguments: object, expect: int = 0, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user does, in a process of its own."""
    start = command(*arguments)
    done = subprocess.run(start, capture_output=True, input=stdin, env=environment(), timeout=120)
    assert done.returncode == expect, (done.stdout + done.stderr).decode()
    return done


def found(*arguments: object, stdin: bytes = b"") -> list[str]:
    hits = json.loads(solar("search", *arguments, "--json", stdin=stdin).stdout)
    assert [set(hit) for hit in hits] == [HIT_FIELDS] * len(hits)
    scores = [round(hit["score"], 6) for hit in hits]  # two photos are equally near their mean
    assert scores == sorted(scores, reverse=True)
    return [hit["path"] for hit in hits]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of photos, a model, and the index that the command makes of them."""
    home = tmp_path_factory.mktemp("home")
    torch.manual_seed(0)
    save(
        RetrievalNet(RetrievalConfig("resnet18", size=96, scales=(1.0,))),
        home / "model.safetensors",
    )
    for identity in range(3):
        (home / "photos" / f"{identity}").mkdir(parents=True)
        for view in range(2):
            exif = Image.Exif()
            exif.get_ifd(0x8769)[0x9003] = f"201{identity}:01:01 12:00:00"
            photo = toy.landmark(identity, view)
            photo.save(home / "photos" / f"{identity}" / f"{view}.jpg", exif=exif)
    (home / "tags.jsonl").write_text(
        '{"path": "2/0.jpg", "tags": ["night"], "floor": 3, "up": true}\n'
    )
    done = solar(
        *("index", "build", home / "photos", "-o", home / "photos.solar"),
        *("--model", home / "model.safetensors", "--metadata", home / "tags.jsonl"),
        "--precompute-keypoints",
    )
    assert f"Indexed 6 photos → {home / 'photos.solar'}" in done.stderr.decode().splitlines()
    return home


def test_search_by_file_bytes_and_indexed_photo(home: Path) -> None:
    photo = home / "photos" / "1" / "0.jpg"
    index, also = home / "photos.solar", "--include-self"
    hits = found(index, photo, "-k", 2, also)
    assert (hits[0], len(hits)) == ("1/0.jpg", 2)
    assert found(index, "-", stdin=photo.read_bytes())[0] == "1/0.jpg"
    assert found(index, "1/0.jpg", also)[0] == "1/0.jpg"
    assert found(index, "name:1/0.jpg", also)[0] == "1/0.jpg"
    assert set(found(index, "1/0.jpg", "2/1.jpg", "-k", 2, also)) == {"1/0.jpg", "2/1.jpg"}


def test_keypoints_are_kept_when_asked_for(home: Path) -> None:
    facts = json.loads(solar("index", "info", home / "photos.solar", "--json").stdout)
    assert facts["local_features"] == 6
    asked = ("index", "build", home / "photos", "-o", home / "a.asmk", "--method", "asmk")
    assert "--precompute-keypoints is for one" in refused(*asked, "--precompute-keypoints")


def test_an_indexed_query_is_left_out_of_its_own_results(home: Path) -> None:
    index, photo = home / "photos.solar", home / "photos" / "1" / "0.jpg"
    hits = found(index, "1/0.jpg")
    assert len(hits) == 5
    assert "1/0.jpg" not in hits
    assert found(index, photo) == hits


def test_hits_tell_where_their_files_are(home: Path) -> None:
    hits = json.loads(solar("search", home / "photos.solar", "1/0.jpg", "--json").stdout)
    assert [hit["absolute"] for hit in hits] == [str(home / "photos" / h["path"]) for h in hits]


def test_search_prints_scores_and_paths(home: Path) -> None:
    command = ("search", home / "photos.solar", "1/0.jpg", "-k", 3, "--include-self")
    lines = solar(*command, "--no-rerank").stdout.decode().splitlines()
    assert len(lines) == 3
    assert lines[0] == "1.0000  1/0.jpg"


def test_search_with_conditions(home: Path) -> None:
    index = home / "photos.solar"
    assert found(index, "1/0.jpg", "--where", "tag=night") == ["2/0.jpg"]
    assert set(found(index, "1/0.jpg", "--where", "path=2/")) == {"2/0.jpg", "2/1.jpg"}
    assert found(index, "1/0.jpg", "--where", "floor>=3") == ["2/0.jpg"]
    between = found(index, "1/0.jpg", "--after", "2011", "--before", "2012", "--include-self")
    assert set(between) == {"1/0.jpg", "1/1.jpg"}


def test_own_fields_are_told_of_hits_and_of_the_index(home: Path, tmp_path: Path) -> None:
    index, table = home / "photos.solar", tmp_path / "hits.csv"
    search = ("search", index, "2/1.jpg", "--no-rerank")
    hits = json.loads(solar(*search, "--json").stdout)
    told = {hit["path"]: (hit["tags"], hit["fields"]) for hit in hits}
    assert told.pop("2/0.jpg") == (["night"], {"floor": 3, "up": True})
    assert set(map(str, told.values())) == {"([], {})"}
    solar(*search, "--csv", table)
    with table.open(newline="") as file:
        rows = {row["path"]: (row["floor"], row["up"]) for row in csv.DictReader(file)}
    assert (rows["2/0.jpg"], rows["1/0.jpg"]) == (("3", "true"), ("", ""))
    assert json.loads(solar("index", "info", index, "--json").stdout)["fields"] == ["floor", "up"]


def test_a_search_that_finds_nothing_says_so(home: Path) -> None:
    never = ("search", home / "photos.solar", "1/0.jpg", "--after", "2030")
    done = solar(*never, "--json")
    assert json.loads(done.stdout) == []
    assert done.stderr.decode() == "No photo matches these filters.\n"


def test_search_writes_a_page_with_the_box(home: Path) -> None:
    page = home / "page.html"
    photo = home / "photos" / "0" / "1.jpg"
    done = solar("search", home / "photos.solar", photo, "--box", "10,10,90,90", "--html", page)
    assert done.stdout == b""
    text = page.read_text()
    assert text.count("<img") == 6
    assert 'class="box"' in text


def test_every_photo_of_a_query_has_its_box(home: Path) -> None:
    index, photo = home / "photos.solar", home / "photos" / "0" / "1.jpg"
    page = home / "boxes.html"
    boxes = ("--box", "10,10,90,90", "--box", "-")
    solar("search", index, photo, "1/0.jpg", *boxes, "--html", page)
    assert page.read_text().count('class="box"') == 1
    told = refused("search", index, photo, "1/0.jpg", "--box", "10,10,90,90")
    assert "2 photos and 1 box do not match" in told


def test_more_like_these_and_less_like_those(home: Path) -> None:
    judged = ("--like", "2/1.jpg", "--like", home / "photos" / "2" / "0.jpg", "--unlike", "0/0.jpg")
    done = solar("search", home / "photos.solar", "1/0.jpg", *judged, "--json")
    hits = [hit["path"] for hit in json.loads(done.stdout)]
    assert set(hits[:2]) == {"2/0.jpg", "2/1.jpg"}
    assert hits[-1] == "0/0.jpg"


def test_add_remove_compact_verify_info_and_copy(home: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy.solar"
    solar("index", "copy", home / "photos.solar", copied, "--compress", "fp16")
    (tmp_path / "more").mkdir()
    toy.landmark(7, 0).save(tmp_path / "more" / "new.png")
    solar("index", "add", copied, tmp_path / "more")
    solar("index", "remove", copied, "0/0.jpg", "0/1.jpg")
    solar("index", "restore", copied, "0/1.jpg")
    assert solar("index", "restore", copied).stdout.split() == [b"0/0.jpg"]
    told = solar("index", "compact", copied).stderr.decode()
    assert re.search(rf"{re.escape(str(copied))}.* 5 photos.*\b[12] unused rows?\b", told)
    facts = json.loads(solar("index", "info", copied, "--json").stdout)
    assert (facts["photos"], facts["unused_rows"], facts["compress"]) == (5, 0, "fp16")
    told = solar("index", "info", copied).stdout.decode()
    assert re.search(r"settings +.*orient yes; ", told)
    assert "{" not in told
    assert b"no errors found" in solar("index", "check", copied).stderr
    new = tmp_path / "more" / "new.png"
    assert found(copied, new, "-k", 1, "--include-self") == ["more//new.png"]


def test_check_exits_with_one_where_something_is_wrong(home: Path, tmp_path: Path) -> None:
    solar("index", "copy", home / "photos.solar", tmp_path / "i.solar")
    [vectors] = (tmp_path / "i.solar" / "segments").iterdir()
    vectors.write_bytes(b"\0" * vectors.stat().st_size)
    done = solar("index", "check", tmp_path / "i.solar", expect=1)
    assert b"is damaged" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "search",
        "index",
        *("index build", "index add", "index remove", "index sync", "index relocate"),
        *("index info", "index check", "index copy", "index compact", "index restore"),
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    text = help_of(*command.split())
    assert "Usage: " in text
    assert command == "index" or "Example: solar" in text


def test_mistakes_are_one_sentence(home: Path, tmp_path: Path) -> None:
    index = home / "photos.solar"
    assert "is not an index" in refused("search", tmp_path, "a.jpg")
    gone = tmp_path / "gone.solar"
    assert f"There is no index {gone}" in refused("search", gone, "a.jpg")
    assert "neither a file nor" in refused("search", index, "no.jpg")
    folder = home / "photos"
    told = refused("search", index, folder)
    assert told == f"solar: {folder} is a folder: name a photo in it.\n"
    assert "--json cannot be" in refused("search", index, "1/0.jpg", "--json", "--csv", "a.csv")
    assert "is not understood" in refused("search", index, "1/0.jpg", "--where", "floor=")
    assert re.search("'flor'.* floor,", refused("search", index, "1/0.jpg", "--where", "flor=3"))
    assert "sideways" in refused("search", index, "1/0.jpg", "--rerank", "sideways")
    unknown = refused("search", index, "1/0.jpg", "--rerank", "alpha,sideways")
    assert "'sideways': choose from average, alpha" in unknown
    assert "nothing was removed" in refused("index", "remove", index, "1/0.jpg", "no.jpg")
    assert "an index already" in refused("index", "build", home / "photos", "-o", index)
    torch.manual_seed(1)
    other = tmp_path / "other.safetensors"
    save(RetrievalNet(RetrievalConfig("resnet18", size=96, scales=(1.0,))), other)
    photo = home / "photos" / "1" / "0.jpg"
    assert "another model" in refused("search", index, photo, "--model", other)
