"""The command that measures the cards, on a little drawn data."""

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.drawn import drawn_retrieval

from solar.demo import toy
from solar.errors import SolarError
from solar.models import PatchConfig, PatchNet, RetrievalConfig, save

ROOT = Path(__file__).parents[2]
CARD = (
    "# it\n<!-- facts -->\n<!-- /facts -->\ntext\n<!-- figures -->\nstale\n<!-- /figures -->\nend\n"
)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, its toy figures left out: another test measures those."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import cards

    monkeypatch.setattr(cards, "toy_photos", lambda model: {"mAP": 88.8, "recall@1": 99.0})
    monkeypatch.setattr(cards, "toy_patches", lambda describe: {"matching": 77.7})
    return cards


@pytest.fixture
def home(tmp_path: Path, cards: Any) -> Path:
    """`data` laid out like the real one, and `weights` of two small networks with empty cards."""
    from lib.drawn_sequences import draw_sequence

    data, files = tmp_path / "data", tmp_path / "weights"
    files.mkdir()
    for shard, first, views in (("landmarks", 0, 3), ("buildings", 9, 2)):
        toy.write(tmp_path / shard / "val", landmarks=2, views=views, size=(96, 72), first=first)
    toy.write(tmp_path / "others" / "d", landmarks=3, views=1, size=(96, 72), first=20)
    for part, name in (
        ("landmarks", "landmarks/val-0.tar"),
        ("buildings", "buildings/val-0.tar"),
        ("others", "landmarks/distractors-0.tar"),
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(data / name, "w") as shard_file:
            for inside in (tmp_path / part).iterdir():
                shard_file.add(inside, arcname=inside.name)
    for identity in (1, 2):
        draw_sequence(data / "affine" / f"v_{identity}", identity, size=(160, 120))
    config = RetrievalConfig("resnet18", scales=(0.5,))
    save(drawn_retrieval(config), files / "solar-r18.safetensors", half=True)
    save(PatchNet(PatchConfig()), files / "solar-local-none.safetensors", half=True)
    for name in ("solar-r18", "solar-local-none"):
        (files / f"{name}.md").write_text(CARD)
    return tmp_path


def run(cards: Any, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["cards.py", *map(str, arguments)])
    cards.main()


def test_figures_go_from_one_machine_to_the_cards_of_another(
    cards: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, out = home / "weights", home / "measured.json"
    names = ("--only", "solar-r18", "solar-local-none")
    where = ("--data", home / "data", "--weights", files, "--out", out, "--device", "cpu")
    run(cards, monkeypatch, *names, *where)
    assert (files / "solar-r18.md").read_text() == CARD
    run(cards, monkeypatch, "--from", out, "--cards", files)
    told = json.loads((files / "solar-r18.json").read_text())
    assert told["command"].endswith("--data DIR --weights FOLDER --out FILE --device cpu")
    assert set(told["figures"]) == {
        "toy", "landmarks", "landmarks + distractors", "buildings", "buildings + distractors",
    }  # fmt: skip
    assert told["scales"] == [0.5]
    more, less = (told["figures"][f"landmarks{end}"]["mAP"] for end in ("", " + distractors"))
    assert more >= less > 0
    card = (files / "solar-r18.md").read_text()
    assert f"| landmarks val, mAP | {more:.1f} |" in card
    assert told["file"]["sha256"] in card
    assert "at least **86**" in card
    assert "stale" not in card
    assert card.endswith("end\n")
    local = json.loads((files / "solar-local-none.json").read_text())
    assert set(local["figures"]["affine"]) == {"matching", "verification", "retrieval"}
    assert "RootSIFT" in (files / "solar-local-none.md").read_text()


def test_a_card_never_loses_figures_of_the_same_file(
    cards: Any, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SOLAR_DATA", raising=False)
    where = ("--weights", home / "weights", "--cards", home / "weights", "--device", "cpu")
    found = cards.measure(["solar-r18"], home / "weights", home / "data", "cpu")
    cards.write_cards(found, home / "weights")
    before = (home / "weights" / "solar-r18.md").read_text()
    with pytest.raises(SystemExit):
        run(cards, monkeypatch, "--only", "solar-r18", *where)
    assert "would lose buildings" in capsys.readouterr().err
    assert (home / "weights" / "solar-r18.md").read_text() == before
    toy_only = cards.measure(["solar-r18"], home / "weights", None, "cpu")
    with pytest.raises(SolarError, match=r"would lose buildings, buildings \+ distractors"):
        cards.write_cards(toy_only, home / "weights")


def test_what_people_wrote_into_the_facts_stays(cards: Any, home: Path) -> None:
    files = home / "weights"
    cards.write_cards(cards.measure(["solar-r18"], files, None, "cpu"), files)
    path = files / "solar-r18.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "trained_on": "drawings"}))
    cards.write_cards(cards.measure(["solar-r18"], files, None, "cpu"), files)
    assert json.loads(path.read_text()) == {**told, "trained_on": "drawings"}


def test_figures_of_another_file_are_refused(cards: Any, home: Path) -> None:
    files = home / "weights"
    found = cards.measure(["solar-r18"], files, None, "cpu")
    save(drawn_retrieval(RetrievalConfig("resnet18")), files / "solar-r18.safetensors")
    with pytest.raises(SolarError, match="not the file that was measured"):
        cards.write_cards(found, files)


def test_what_asmk_finds_goes_onto_the_card_of_a_local_network(
    cards: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asmk

    files, data, out = home / "weights", home / "data", home / "asmk.json"
    path = files / "how-r18-small.safetensors"
    config = RetrievalConfig("resnet18-conv4", pooling="how", whitening=False, scales=(1.0,))
    save(drawn_retrieval(config), path, half=True)
    path.with_suffix(".md").write_text(CARD)
    monkeypatch.setattr(cards, "toy_local", lambda features: {"mAP": 70.0, "recall@1": 80.0})
    cards.write_cards(cards.measure([path.stem], files, None, "cpu"), files)
    with tarfile.open(data / "landmarks" / "train-0.tar", "w") as shard_file:
        shard_file.add(home / "others" / "d", arcname="train")
    arguments = ["--local", path, "--local", "rootsift", "--model", files / "solar-r18.safetensors"]
    arguments += ["--data", data, "--words", 16, "--json", out]
    monkeypatch.setattr(sys, "argv", ["asmk.py", *map(str, arguments)])
    asmk.main()
    # By their names, as if they were bundled.
    names = {str(path): path.stem, str(files / "solar-r18.safetensors"): "solar-r18"}
    report = json.loads(out.read_text())
    for row in report["rows"]:
        kind, _, method = row["method"].partition(" ")
        row["method"] = f"{kind} {names.get(method, method)}"
    out.write_text(json.dumps(report))
    run(cards, monkeypatch, "--asmk", out, "--cards", files)
    told = json.loads(path.with_suffix(".json").read_text())
    assert told["task"] == "local"
    assert set(told["figures"]) == {
        "toy", "landmarks", "landmarks + distractors", "buildings", "buildings + distractors",
    }  # fmt: skip
    assert set(told["beside"]) == {"rootsift, ASMK*", "solar-r18, embedding"}
    assert told["command"].startswith("python benchmarks/asmk.py --local ")
    own, *others = report["rows"]
    alone, among = (own["figures"][f"landmarks{end}"] for end in ("", " + distractors"))
    assert told["figures"]["landmarks"]["mAP"] == round(alone["mAP"], 2)
    assert alone["mAP"] >= among["mAP"] > 0
    assert len(others) == 2
    assert len(report["compared"]) == 3
    more = report["compared"][0]["landmarks"]["more"]
    assert more == pytest.approx(alone["mAP"] - others[0]["figures"]["landmarks"]["mAP"])
    assert "| how-r18-small | RootSIFT, ASMK* | solar-r18, one embedding |" in (
        path.with_suffix(".md").read_text()
    )
    # Measured again, the same file keeps them; another file does not take them.
    cards.write_cards(cards.measure([path.stem], files, None, "cpu"), files)
    assert json.loads(path.with_suffix(".json").read_text())["figures"] == told["figures"]
    save(drawn_retrieval(config), path)  # not rounded
    with pytest.raises(SolarError, match="how-r18-small is not the file that was measured"):
        cards.add_asmk(report, files)


def test_place_recognition_goes_onto_the_cards(
    cards: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import place_recognition

    home, files, data, out = (tmp_path / name for name in ("", "weights", "data", "places.json"))
    files.mkdir()
    save(drawn_retrieval(RetrievalConfig("resnet18")), files / "solar-r18.safetensors", half=True)
    (files / "solar-r18.md").write_text(CARD)
    save(drawn_retrieval(RetrievalConfig("resnet18", dim=64)), home / "other.safetensors")
    cards.write_cards(cards.measure(["solar-r18"], files, None, "cpu"), files)
    toy.write(home / "drawn", landmarks=4, views=2, size=(64, 48))
    for view, side in enumerate(("day_left", "day_right", "night_right")):
        (data / "GardensPointWalking" / side).mkdir(parents=True)
        for place in range(4):
            photo = home / "drawn" / f"landmark-{place:03}" / f"view-{min(view, 1):03}.jpg"
            (data / "GardensPointWalking" / side / f"Image{10 * place}.jpg").hardlink_to(photo)
        (data / "GardensPointWalking" / side / "Image_resized.jpg").hardlink_to(photo)
    arguments = ["--data", data, "--model", f"solar-r18={files / 'solar-r18.safetensors'}"]
    arguments += ["--model", f"other={home / 'other.safetensors'}"]
    arguments += ["--json", out, "--cache", home / "cache"]
    monkeypatch.setattr(sys, "argv", ["place_recognition.py", *map(str, arguments)])
    monkeypatch.setattr(place_recognition, "SIZE", 64)
    place_recognition.main()
    found = json.loads(out.read_text())
    # Again from the cache, without a network.
    monkeypatch.setattr(place_recognition, "by_model", lambda *_: pytest.fail("described again"))
    place_recognition.main()
    assert json.loads(out.read_text())["models"] == found["models"]
    assert list(found["sets"]) == ["Gardens Point, day → day", "Gardens Point, day → night"]
    assert found["sets"]["Gardens Point, day → day"] == {
        "queries": 4, "database": 4, "frames": 2,
    }  # fmt: skip
    assert found["command"].endswith(
        "--data DIR --model solar-r18 --model other --json FILE --cache CACHE"
    )
    figures = found["models"]["solar-r18"]["figures"]
    value, low, high = figures["Gardens Point, day → day"]["recall@1"]
    assert low <= value <= high
    assert {row["against"] for row in found["compared"]} == {"other"}
    run(cards, monkeypatch, "--places", out, "--cards", files)
    card = (files / "solar-r18.md").read_text()
    assert f"| Gardens Point, day → day, recall@1 | {value:.1f} ({low:.1f}–{high:.1f}) |" in card
    # Measured again, the same file keeps them; another file does not take them.
    cards.write_cards(cards.measure(["solar-r18"], files, None, "cpu"), files)
    assert "places" in json.loads((files / "solar-r18.json").read_text())
    found["models"]["solar-r18"]["sha256"] = "0"
    with pytest.raises(SolarError, match="solar-r18 is not the file that was measured"):
        cards.add_places(found, files)
