from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from fastapi.testclient import TestClient
from support.web_visits import Answer, Home, Open, passes, search, upload

from solar.index.build import build
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.nn import SecondOrderAttention

BOX = [20, 10, 140, 100]

Serve: TypeAlias = Callable[..., TestClient]


@pytest.fixture
def serve(home: Home, open_app: Open, tmp_path: Path) -> Serve:
    """Opens an app over three photos and a model with settings of one's own."""

    def serve_one(**settings: Any) -> TestClient:
        torch.manual_seed(0)
        how = {"attention": {}, "size": 96, "scales": (1.0, 0.7), **settings}
        net = RetrievalNet(RetrievalConfig("resnet18", **how))
        for block in net.modules():
            if isinstance(block, SecondOrderAttention):  # a new one changes nothing
                torch.nn.init.normal_(block.output.weight, std=0.2)
        save(net, tmp_path / "drawn.safetensors")
        photos, model = home / "photos" / "landmark-000", tmp_path / "drawn.safetensors"
        build(photos, tmp_path / "drawn.solar", model=model).close()
        return open_app(index=tmp_path / "drawn.solar")

    return serve_one


def why(client: TestClient, path: str = "why", **asked: object) -> Answer:
    answer = client.post(f"/api/v1/{path}", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_heat_maps_sum_to_the_score_of_the_search(open_app: Open, photo: bytes) -> None:
    client = open_app(models=("other",))
    query = upload(client, photo)
    for options in ({}, {"box": BOX}, {"model": "other"}):
        for hit in search(client, query, k=2, **options)["hits"]:
            found = why(client, a=query, b=hit["id"], **options)
            assert found["score"] == pytest.approx(hit["score"], abs=1e-4)
            assert found["b"]["name"] == hit["name"]
            for side in (found["a"], found["b"]):
                assert sum(side["heat"]) == pytest.approx(found["score"], abs=1e-5)
                assert len(side["heat"]) == (len(side["rows"]) - 1) * (len(side["columns"]) - 1)


def test_regions_lie_in_the_box(client: TestClient) -> None:
    found = why(client, a="3", b="4", box=BOX)
    assert [found["a"]["columns"][0], found["a"]["rows"][0]] == BOX[:2]
    assert [found["a"]["columns"][-1], found["a"]["rows"][-1]] == BOX[2:]
    assert [found["b"]["columns"][-1], found["b"]["rows"][-1]] == [160, 120]
    for pair in found["pairs"]:
        assert BOX[0] < pair["a"][0] < BOX[2]


@pytest.mark.parametrize("side", ["a", "b"])
def test_answers_to_a_region_sum_to_what_it_adds(client: TestClient, side: str) -> None:
    asked = {"a": "3", "b": "5"}
    found = why(client, **asked)
    other = found["b" if side == "a" else "a"]
    columns, rows = found[side]["columns"], found[side]["rows"]
    at = {"x": (columns[1] + columns[2]) / 2, "y": (rows[0] + rows[1]) / 2}
    before = passes(client)
    answer = why(client, "why/answers", **asked, side=side, **at)
    assert passes(client) <= before + 1  # which only asks for the network: both photos are kept
    assert answer["region"] == [0, 1]
    assert answer["value"] == pytest.approx(found[side]["heat"][1], abs=1e-6)
    assert len(answer["heat"]) == len(other["heat"])
    assert sum(answer["heat"]) == pytest.approx(answer["value"], abs=1e-4)


def test_without_attention_another_similarity_is_explained(serve: Serve) -> None:
    client = serve(attention={4: 4, 5: 2})
    [hit, *_] = search(client, "0")["hits"]
    asked = {"a": "0", "b": hit["id"]}
    usual, plain = why(client, **asked), why(client, **asked, attention=False)
    assert usual["score"] == pytest.approx(hit["score"], abs=1e-4)
    assert plain["score"] != pytest.approx(usual["score"], abs=1e-3)
    assert sum(plain["a"]["heat"]) == pytest.approx(plain["score"], abs=1e-5)
    answer = why(client, "why/answers", **asked, attention=False, side="a", x=1, y=1)
    assert answer["value"] == pytest.approx(plain["a"]["heat"][0], abs=1e-6)
    assert answer["value"] != pytest.approx(usual["a"]["heat"][0], abs=1e-6)


def test_a_photo_is_looked_into_once_for_all_its_results(open_app: Open) -> None:
    client = open_app()
    explainer = client.app.state.service.explainer
    why(client, a="3", b="4")
    two, before = explainer.nbytes, passes(client)
    why(client, a="3", b="5")
    assert (explainer.nbytes, passes(client)) == (two * 3 / 2, before + 2)
    why(client, a="5", b="4")
    assert (explainer.nbytes, passes(client)) == (two * 3 / 2, before + 3)
    assert f'solar_why_bytes{{index="toy"}} {explainer.nbytes}' in client.get("/metrics").text


def test_explanations_are_forgotten_before_memory_runs_out(open_app: Open) -> None:
    client = open_app(why_bytes=200_000)
    for number in range(1, 5):
        why(client, a="0", b=str(number))
        assert client.app.state.service.explainer.nbytes <= 200_000


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ({"x": 160, "y": 3}, 422, "160 × 120"),
        ({"x": 3, "y": -1}, 422, "not in the photo"),
        ({"side": "c"}, 422, "side"),
        ({"box": [900, 900, 999, 999]}, 422, "outside the photo"),
        ({"box": [5, 5, 5, 9]}, 422, "encloses nothing"),
        ({"model": "none"}, 404, "There is no model 'none'"),
        ({"b": "999"}, 404, "There is no photo 999"),
        ({"b": "q-gone-and-forgotten"}, 404, ""),
    ],
)
def test_mistakes_about_regions_are_one_sentence(
    client: TestClient, asked: Answer, status: int, told: str
) -> None:
    whole = {"a": "3", "b": "4", "side": "a", "x": 3, "y": 3, **asked}
    answer = client.post("/api/v1/why/answers", json=whole)
    assert answer.status_code == status
    sentence = answer.json()["error"]
    assert told in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_a_model_that_cannot_tell_says_so(serve: Serve) -> None:
    client = serve(pooling="rmac")
    [told] = client.get("/api/v1/info").json()["models"]
    assert told == {"name": "drawn", "attention": [], "why": False, "text": False}
    answer = client.post("/api/v1/why", json={"a": "0", "b": "1"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("This network pools by rmac")


def test_a_model_without_attention_has_none_to_leave_out(serve: Serve) -> None:
    client = serve()
    assert client.get("/api/v1/info").json()["models"][0]["why"] is True
    why(client, a="0", b="1")
    answer = client.post("/api/v1/why", json={"a": "0", "b": "1", "attention": False})
    assert answer.status_code == 422
    assert answer.json()["error"] == "The model drawn has no attention to leave out."
