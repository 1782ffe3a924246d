"""Searches with words, alone and together with a photo."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from support.tiny_joint import write_joint
from support.web_visits import Answer, names, numbers, passes, search

from solar.demo import toy
from solar.index import Index
from solar.index.build import build
from solar.web import WebSettings, create_app

TEXT = "a red door"


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Index]]:
    """An app whose model has a text side, and its index."""
    home = tmp_path_factory.mktemp("reading")
    write_joint("siglip", home / "siglip")
    toy.write(home / "photos", landmarks=4, views=2, size=(96, 72))
    build(home / "photos", home / "i.solar", model=home / "siglip").close()
    index = Index.open(home / "i.solar")
    assert isinstance(index, Index)
    app = create_app(index, settings=WebSettings(name="toy", rate=0.0))
    with index, TestClient(app, base_url="http://127.0.0.1:8000") as client:
        yield client, index


def ask(client: TestClient, **request: object) -> Answer:
    answer = client.post("/api/v1/search", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_info_says_that_the_model_reads(reading: tuple[TestClient, Index]) -> None:
    [model] = reading[0].get("/api/v1/info").json()["models"]
    assert (model["name"], model["text"]) == ("siglip", True)


def test_words_alone(reading: tuple[TestClient, Index]) -> None:
    client, index = reading
    found = ask(client, text=f" {TEXT} ")
    expected = index.search(text=TEXT)
    assert names(found) == [hit.path for hit in expected]
    np.testing.assert_allclose(
        [hit["score"] for hit in found["hits"]], [hit.score for hit in expected], atol=1e-5
    )
    assert (found["query"], found["text"], found["stage"]) == (None, f" {TEXT} ", "search")
    assert {hit["probability"] for hit in found["hits"]} == {None}
    assert ask(client, text="a blue house")["hits"] != found["hits"]
    before = passes(client)
    assert names(ask(client, text=TEXT)) == names(found)
    assert passes(client) == before  # its vector was kept


def test_words_and_a_photo(reading: tuple[TestClient, Index]) -> None:
    client, index = reading
    name = "landmark-001/view-000.jpg"
    photo = numbers(client)[name]
    found = ask(client, text=TEXT, photo=photo)
    assert names(found) == [hit.path for hit in index.search(f"name:{name}", text=TEXT)]
    assert found["query"]["name"] == name
    assert found["complete"]
    assert found["stage"] == "search"  # not ranked again, unless somebody asks
    assert names(search(client, photo, rerank=[])) != names(found)


def test_results_for_words_can_be_judged_and_ranked_again(
    reading: tuple[TestClient, Index],
) -> None:
    client, _ = reading
    first, *_, last = ask(client, text=TEXT)["hits"]
    judged = ask(client, text=TEXT, like=[last["id"]], unlike=[first["id"]])
    assert (names(judged)[0], names(judged)[-1]) == (last["name"], first["name"])
    assert ask(client, text=TEXT, rerank=["alpha"])["stage"] == "expand"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({}, "a search needs a photo or a text"),
        ({"text": " "}, "a search needs a photo or a text"),
        ({"text": TEXT, "box": [0, 0, 9, 9]}, "a box and further photos need a photo"),
        ({"text": TEXT, "rerank": ["verify"]}, "A text has no points to match"),
        ({"text": "x" * 501}, "at most 500 characters"),
    ],
)
def test_what_words_cannot_be_used_for(
    reading: tuple[TestClient, Index], request_: dict[str, object], said: str
) -> None:
    answer = reading[0].post("/api/v1/search", json=request_)
    assert answer.status_code == 422
    assert said in answer.json()["error"]


def test_a_model_that_does_not_read_says_so(client: TestClient, home: Path) -> None:
    answer = client.post("/api/v1/search", json={"text": TEXT})
    assert answer.status_code == 422
    assert "has no text encoder" in answer.json()["error"]
    assert str(home) not in answer.json()["error"]
