import json
from pathlib import Path

import pytest
from support.running import HIT_FIELDS, refused, solar

from solar.demo import toy


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    toy.write(home / "photos", landmarks=3, views=3)
    solar(
        *("index", "build", home / "photos", "-o", home / "photos.asmk"),
        *("--method", "asmk", "--words", 128),
    )
    return home


def test_search_answers_in_the_same_form(home: Path) -> None:
    photo = home / "photos" / "landmark-001" / "view-000.jpg"
    box = ("--box", "40,40,280,200")
    command = ("search", home / "photos.asmk", photo, *box, "--include-self", "--json")
    hits = json.loads(solar(*command).stdout)
    assert [set(hit) for hit in hits] == [HIT_FIELDS] * len(hits)
    assert hits[0]["absolute"] == str(photo)
    assert hits[0]["path"] == "landmark-001/view-000.jpg"
    assert hits[1]["path"].startswith("landmark-001/")


def test_info_and_verify(home: Path) -> None:
    facts = json.loads(solar("index", "info", home / "photos.asmk", "--json").stdout)
    assert (facts["engine"], facts["photos"], facts["words"]) == ("asmk", 9, 128)
    assert "9 photos, no errors found" in solar("index", "check", home / "photos.asmk").stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("search", "@photos.asmk", "landmark-001/view-000.jpg", "--rerank", "diffusion"),
            "need embeddings",
        ),
        (
            ("search", "@photos.asmk", "landmark-001/view-000.jpg", "--unlike", "x.jpg"),
            "no vectors",
        ),
        (("index", "copy", "@photos.asmk", "@copy"), "no vectors"),
        (("index", "map", "@photos.asmk", "-o", "@map.png"), "no vectors"),
        (("index", "build", "@photos", "-o", "@x", "--words", "9"), "--words needs --method asmk"),
        (
            ("index", "build", "@photos", "-o", "@x", "--method", "asmk", "--model", "solar-r18"),
            "--model is for one embedding per photo",
        ),
        (
            ("index", "build", "@photos", "-o", "@x", "--local-features", "rootsift"),
            "--local-features",
        ),
        (
            (
                "index",
                "build",
                "@photos",
                "-o",
                "@x",
                "--method",
                "asmk",
                "--local-features",
                "solar-r18",
            ),
            "keypoints",
        ),
        (
            (
                "index",
                "build",
                "@photos",
                "-o",
                "@x",
                "--method",
                "asmk",
                "--local-features",
                "delf-r50",
            ),
            "train it",
        ),
        (
            ("evaluate", "@photos", "--method", "asmk", "--model", "solar-r18"),
            "leave out --model",
        ),
        (("evaluate", "@photos", "--method", "asmk", "--scales", "1"), "--scales is for"),
        (("evaluate", "@photos", "--codebook", "@photos.asmk"), "--codebook needs --method asmk"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    home: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    assert complaint in refused(*(word.replace("@", f"{home}/") for word in arguments))
