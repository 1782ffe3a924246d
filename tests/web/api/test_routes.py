import io
import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from support.raw_files import raf
from support.web_visits import (
    LANDMARKS,
    PHOTOS,
    VIEWS,
    Home,
    Open,
    names,
    numbers,
    passes,
    search,
    upload,
)

from solar.images.exif import ExifFacts
from solar.index import Index
from solar.index.add import add
from solar.ranking import background, calibration
from solar.ranking.calibration import MATCHED_SIGNS, SIGNS, Calibration
from solar.ranking.query import Part
from solar.ranking.rerank import METHODS
from solar.storage.types import Amendment


def test_info_tells_what_there_is(client: TestClient) -> None:
    info = client.get("/api/v1/info").json()
    assert (info["name"], info["photos"], info["dim"]) == ("toy", PHOTOS, 64)
    assert info["models"] == [{"name": "model", "attention": [4, 5], "why": True, "text": False}]
    assert info["settings"]["writable"] is False
    assert info["features"]["labels"] is True


def test_no_path_of_the_server_is_told(open_app: Open, home: Home) -> None:
    client = open_app(models=("other",))
    for path in ("/api/v1/info", "/api/v1/photos", "/api/v1/photos/3", "/metrics"):
        assert str(home) not in client.get(path).text


def test_photos_are_listed_by_page_label_and_name(client: TestClient) -> None:
    page = client.get("/api/v1/photos", params={"offset": 3, "limit": 4}).json()
    assert page["total"] == PHOTOS
    assert [one["id"] for one in page["photos"]] == ["3", "4", "5", "6"]
    page = client.get("/api/v1/photos", params={"label": "landmark-001"}).json()
    assert {one["name"] for one in page["photos"]} == {
        f"landmark-001/view-{view:03}.jpg" for view in range(VIEWS)
    }
    page = client.get("/api/v1/photos", params={"search": "VIEW-002"}).json()
    assert page["total"] == LANDMARKS


def test_of_a_raw_file_the_preview_is_shown_and_named(
    open_app: Open, home: Home, tmp_path: Path
) -> None:
    copy = shutil.copytree(home / "photos", tmp_path / "photos")
    shown = io.BytesIO()
    Image.new("RGB", (600, 400), "red").save(shown, "JPEG")
    (copy / "a.raf").write_bytes(raf(shown.getvalue()))
    index = shutil.copytree(home / "model.solar", tmp_path / "i.solar")
    built = add([copy / "a.raf"], index)
    built.index.close()
    assert (built.photos, built.previews) == (1, 1)
    client = open_app(index=index)
    [found] = client.get("/api/v1/photos", params={"search": "a.raf"}).json()["photos"]
    one = client.get(f"/api/v1/photos/{found['id']}").json()
    assert (one["preview"], one["width"], one["height"]) == (True, 600, 400)
    assert client.get(one["photo"]).status_code == 200


def test_a_photo_knows_its_size_and_label(client: TestClient, home: Home) -> None:
    identity = numbers(client)["landmark-002/view-001.jpg"]
    one = client.get(f"/api/v1/photos/{identity}").json()
    assert (one["width"], one["height"], one["label"]) == (160, 120, "landmark-002")
    file = home / "photos" / "landmark-002" / "view-001.jpg"
    assert (one["bytes"], one["tags"]) == (file.stat().st_size, [])
    assert one["preview"] is False
    assert (one["original"].split("?")[0], one["original_is_file"]) == (
        f"/api/v1/photos/{identity}/original",
        False,
    )
    assert one["thumbnail"].startswith(f"/api/v1/photos/{identity}/thumbnail?")
    assert client.get("/api/v1/photos/0").json()["label"] is None  # a distractor


def test_a_photo_tells_where_and_when_it_was_taken(open_app: Open, copy: Path) -> None:
    name, taken, place = "landmark-002/view-001.jpg", "2019-07-14T18:30:00", (48.8582, 2.2945)
    with Index.open(copy / "model.solar") as index:
        index.engine.amend(Amendment(facts={name: ExifFacts(taken, place, "Canon EOS 5D")}))
    client = open_app(index=copy / "model.solar", photos=copy / "photos")
    identity = numbers(client)[name]
    shown = [client.get(f"/api/v1/photos/{identity}").json()]
    shown += search(client, identity, include_self=True, k=1)["hits"]
    for one in shown:
        facts = one["taken"], one["position"], one["camera"]
        assert facts == (taken, list(place), "Canon EOS 5D")
    assert client.get("/api/v1/photos/0").json()["position"] is None


@pytest.mark.parametrize("path", ["thumbnail?w=160", "photo", "original"])
def test_pictures_are_jpegs(client: TestClient, path: str) -> None:
    answer = client.get(f"/api/v1/photos/3/{path}")
    assert answer.headers["content-type"] == "image/jpeg"
    assert "max-age" in answer.headers["cache-control"]
    assert max(Image.open(io.BytesIO(answer.content)).size) == 160


def test_thumbnails_are_made_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    import solar.web.service as service

    made = []
    original = service.picture
    monkeypatch.setattr(service, "picture", lambda *a: made.append(a) or original(*a))
    first = client.get("/api/v1/photos/3/thumbnail?w=640").content
    assert client.get("/api/v1/photos/3/thumbnail?w=640").content == first
    assert len(made) == 1


def test_an_uploaded_photo_finds_itself(client: TestClient, photo: bytes) -> None:
    found = search(client, upload(client, photo), k=3)
    assert found["hits"][0]["name"] == "landmark-002/view-001.jpg"
    assert found["hits"][0]["score"] == pytest.approx(1, abs=1e-4)
    assert found["hits"][0]["same_label"] is None  # nobody knows what an upload shows
    assert (len(found["hits"]), found["more"], found["complete"]) == (3, True, True)
    assert found["query"]["name"] == "mine.jpg"


def test_search_agrees_with_the_index(client: TestClient, home: Home) -> None:
    box = (20.0, 10.0, 140.0, 100.0)
    file = home / "photos" / "landmark-001" / "view-000.jpg"
    identity = numbers(client)["landmark-001/view-000.jpg"]
    with Index.open(home / "model.solar") as index:
        plain = index.search("landmark-001/view-000.jpg", 50)
        boxed = index.search(str(file), 50, box=box)
        expanded = index.search(str(file), 50, box=box, rerank="average")
    assert names(search(client, identity)) == [hit.path for hit in plain]
    found = search(client, identity, box=box)
    assert names(found) == [hit.path for hit in boxed]
    scores = [hit["score"] for hit in found["hits"]]
    np.testing.assert_allclose(scores, [hit.score for hit in boxed], atol=1e-4)
    assert names(search(client, identity, box=box, rerank=["average"])) == [
        hit.path for hit in expanded
    ]


def test_an_indexed_photo_is_only_found_for_itself_where_that_is_wanted(client: TestClient) -> None:
    name = "landmark-001/view-000.jpg"
    identity = numbers(client)[name]
    others = names(search(client, identity))
    assert len(others) == PHOTOS - 1
    assert names(search(client, identity, include_self=True)) == [name, *others]
    whole = {"box": [0, 0, 160, 120]}
    assert name not in names(search(client, identity, **whole))
    assert names(search(client, identity, include_self=True, **whole))[0] == name
    pages = [search(client, identity, k=5, offset=offset) for offset in (0, 5, 10)]
    assert [one for page in pages for one in names(page)] == others


def test_ground_truth_is_told_for_indexed_queries(client: TestClient) -> None:
    found = search(client, numbers(client)["landmark-001/view-000.jpg"])
    for hit in found["hits"]:
        expected = None if hit["label"] is None else hit["label"] == "landmark-001"
        assert hit["same_label"] is expected


def test_scrolling_on_gives_the_next_ranks(client: TestClient, photo: bytes) -> None:
    identity = upload(client, photo)
    whole = names(search(client, identity, k=PHOTOS))
    pages = [search(client, identity, k=5, offset=offset) for offset in (0, 5, 10)]
    assert [name for page in pages for name in names(page)] == whole
    assert [page["more"] for page in pages] == [True, True, False]
    assert [hit["rank"] for hit in pages[1]["hits"]] == [6, 7, 8, 9, 10]


def test_filters_leave_out_photos(client: TestClient, photo: bytes) -> None:
    identity = upload(client, photo)
    everything = search(client, identity, rerank=[])
    by_label = search(client, identity, filter={"label": "landmark-003"})
    assert names(by_label) == [n for n in names(everything) if n.startswith("landmark-003/")]
    by_name = search(client, identity, filter={"search": "VIEW-002"})
    assert names(by_name) == [n for n in names(everything) if "view-002" in n]
    least = everything["hits"][3]["score"] - 1e-6
    by_score = search(client, identity, rerank=[], filter={"min_score": least})
    assert names(by_score) == names(everything)[:4]


def test_expansion_tells_who_moved(client: TestClient, photo: bytes) -> None:
    identity = upload(client, photo)
    plain = names(search(client, identity, rerank=[]))
    found = search(client, identity, rerank=["alpha"])
    assert found["stage"] == "expand"
    assert found["seconds"]["expand"] > 0
    for hit in found["hits"]:
        assert hit["moved"] == plain.index(hit["name"]) + 1 - hit["rank"]


def test_verification_counts_inliers(client: TestClient, photo: bytes) -> None:
    found = search(client, upload(client, photo), rerank=["verify"])
    assert found["stage"] == "verify"
    assert found["hits"][0]["name"] == "landmark-002/view-001.jpg"
    assert found["hits"][0]["inliers"] > 20
    assert found["seconds"]["verify"] > 0


def test_results_are_verified_unless_told_otherwise(client: TestClient, photo: bytes) -> None:
    identity = upload(client, photo)
    assert client.get("/api/v1/info").json()["features"]["usual"] == ["verify"]
    usual, asked = search(client, identity), search(client, identity, rerank=["verify"])
    assert usual["stage"] == "verify"
    assert usual["hits"] == asked["hits"]
    plain = search(client, identity, rerank=[])
    assert plain["stage"] == "search"
    scores = [hit["score"] for hit in plain["hits"]]
    assert scores == sorted(scores, reverse=True)


def test_a_least_probability_needs_a_calibrated_model(
    client: TestClient, photo: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"photo": upload(client, photo), "filter": {"min_probability": 0.5}}
    refused = client.post("/api/v1/search", json=body)
    assert refused.status_code == 422
    assert "has no calibrated probabilities" in refused.json()["error"]

    scores = [hit["score"] for hit in search(client, body["photo"], rerank=[])["hits"]]
    steep = 10 / (scores[0] - scores[-1])
    similar = -steep * (scores[0] + scores[-1]) / 2, steep, *(0.0,) * (len(SIGNS) - 1)
    known = Calibration(similar, (0.0, 1.0, *(0.0,) * (len(MATCHED_SIGNS) - 1)))
    monkeypatch.setattr(Index, "calibration", known)
    for place in (background, calibration):  # few photos do here
        monkeypatch.setattr(place, "FEWEST", 2)
    identity = body["photo"] = upload(client, photo)  # rankings of the other one are kept
    for methods in ([], ["verify"]):
        every = search(client, identity, rerank=methods)["hits"]
        probable = [hit["probability"] for hit in every]
        assert probable == sorted(probable, reverse=True)
        assert probable[0] > 0.5 > probable[-1]
        kept = search(client, identity, rerank=methods, filter={"min_probability": 0.5})["hits"]
        assert kept == [hit for hit in every if hit["probability"] >= 0.5]
    refused = client.post("/api/v1/search", json={**body, "rerank": ["alpha"]})
    assert "There are no probabilities after alpha" in refused.json()["error"]


def test_stages_stream_one_a_line(client: TestClient, photo: bytes) -> None:
    body = {"photo": upload(client, photo), "k": 4, "rerank": ["alpha", "verify"]}
    answer = client.post("/api/v1/search", json=body, headers={"Accept": "application/x-ndjson"})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["stage"] for line in lines] == ["search", "expand", "verify"]
    assert [line["complete"] for line in lines] == [False, False, True]
    assert names(lines[0]) == names(search(client, body["photo"], k=4, rerank=[]))
    assert lines[2]["hits"] == search(client, **body)["hits"]


def test_two_models_are_compared(open_app: Open, home: Home, photo: bytes) -> None:
    client = open_app(models=("other",))
    assert [m["name"] for m in client.get("/api/v1/info").json()["models"]] == ["model", "other"]
    identity = upload(client, photo)
    with Index.open(home / "other.solar") as index:
        expected = [hit.path for hit in index.search(photo, 50)]
    assert names(search(client, identity, model="other")) == expected
    assert names(search(client, identity)) != expected


def test_attention_is_that_of_the_network(client: TestClient, home: Home, photo: bytes) -> None:
    from solar.models import load
    from solar.show.attention_maps import attention

    identity = upload(client, photo)
    asked = {"photo": identity, "x": 100, "y": 30, "layer": 4}
    first = client.post("/api/v1/attention", json=asked).json()
    model = load(home / "model.safetensors")
    expected = attention(model, photo, at=(100, 30), layer=4, size=96).maps[0]
    assert (first["rows"], first["columns"]) == expected.shape
    np.testing.assert_allclose(first["row"], expected.ravel(), rtol=0.05, atol=1e-4)
    rows, columns = expected.shape
    assert first["cell"] == [int(30 / 120 * rows), int(100 / 160 * columns)]
    before = passes(client)
    again = client.post("/api/v1/attention", json={**asked, "x": 3, "layer": 5}).json()
    assert (again["layer"], passes(client)) == (5, before)  # the photo is kept


def test_matches_join_the_same_points(client: TestClient, photo: bytes) -> None:
    identity = upload(client, photo)
    same = numbers(client)["landmark-002/view-001.jpg"]
    found = client.post("/api/v1/matches", json={"a": identity, "b": same}).json()
    assert len(found["inliers"]) > found["threshold"] > 4
    assert found["same_scene"] is True
    asked = {"photo": identity, "rerank": ["verify"], "k": 200}
    hits = client.post("/api/v1/search", json=asked).json()["hits"]
    for hit in [hit for hit in hits if hit["inliers"] is not None][::10]:
        pair = client.post("/api/v1/matches", json={"a": identity, "b": hit["id"]}).json()
        assert len(pair["inliers"]) == hit["inliers"]
        facts = ("same_scene", "threshold")
        assert [pair[name] for name in facts] == [hit[name] for name in facts]
    ends = np.array(found["inliers"])
    np.testing.assert_allclose(ends[:, :2], ends[:, 2:], atol=1)
    assert found["a"]["width"] == 160
    boxed = {"a": identity, "b": same, "box": [0, 0, 80, 120]}
    inside = np.array(client.post("/api/v1/matches", json=boxed).json()["inliers"])
    assert 0 < len(inside) < len(ends)
    assert inside[:, 0].max() <= 80


def test_the_map_comes_when_it_is_made(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = time.monotonic() + 60
    while (answer := client.get("/api/v1/map")).status_code == 202:
        assert answer.json()["seconds"] >= 0
        assert time.monotonic() < deadline
    found = answer.json()
    assert sorted(point["id"] for point in found["points"]) == sorted(map(str, range(PHOTOS)))
    assert all(0 <= point["x"] <= 1 and 0 <= point["y"] <= 1 for point in found["points"])
    names = ("name", "label", "taken", "thumbnail")
    for point in found["points"]:
        known = client.get(f"/api/v1/photos/{point['id']}").json()
        assert {name: point[name] for name in names} == {name: known[name] for name in names}
    assert (found["total"], found["method"]) == (PHOTOS, "tsne")
    monkeypatch.setattr("solar.web.service._POINTS", 10)
    sample = client.get("/api/v1/map").json()
    assert len(sample["points"]) <= 10
    assert sample["total"] == PHOTOS


def test_health_readiness_and_metrics(client: TestClient, photo: bytes) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    search(client, upload(client, photo))
    assert client.get("/readyz").json() == {"status": "ok"}
    text = client.get("/metrics").text
    assert (
        'solar_requests_total{index="toy",method="POST",route="/api/v1/search",status="200"} '
        in text
    )
    assert f'solar_index_photos{{index="toy"}} {PHOTOS}' in text
    assert "solar_batch_size_count" in text


def test_the_api_describes_itself(client: TestClient) -> None:
    description = client.get("/api/v1/openapi.json").json()
    assert {"/api/v1/search", "/api/v1/queries", "/api/v1/map"} <= set(description["paths"])
    assert "servers" not in description
    assert client.get("/docs").status_code == 404  # its scripts would come from elsewhere


def test_nothing_but_the_files_of_the_page_is_served(client: TestClient) -> None:
    assert "<title>" in client.get("/").text
    script = client.get("/static/js/main.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = client.get("/static/js/main.js", headers={"If-None-Match": script.headers["etag"]})
    assert again.status_code == 304
    for name in ("", "js", "%2e%2e/app.py", "../app.py"):
        assert client.get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("search", {"photo": "999"}, 404),
        ("search", {"photo": "q-gone-and-forgotten"}, 404),
        ("search", {"photo": "0", "model": "none"}, 404),
        ("search", {"photo": "0", "k": 0}, 422),
        ("search", {"photo": "0", "colour": "red"}, 422),
        ("search", {"photo": "0", "box": [5, 5, 5, 9]}, 422),
        ("search", {"photo": "0", "box": [900, 900, 999, 999]}, 422),
        ("search", {"photo": "0", "box": [1, 1, 3, 3]}, 422),
        ("attention", {"photo": "0", "x": 160, "y": 3}, 422),
        ("attention", {"photo": "0", "x": 3, "y": 3, "layer": 3}, 422),
        ("matches", {"a": "0"}, 422),
    ],
)
def test_mistakes_are_one_sentence(
    client: TestClient, path: str, body: dict[str, object], status: int
) -> None:
    answer = client.post(f"/api/v1/{path}", json=body)
    assert answer.status_code == status
    sentence = answer.json()["error"]
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize("method", ["dba", "diffusion", "superglobal"])
def test_re_ranking_is_that_of_the_index(client: TestClient, home: Home, method: str) -> None:
    identity = numbers(client)["landmark-001/view-000.jpg"]
    with Index.open(home / "model.solar") as index:
        expected = index.search("landmark-001/view-000.jpg", 50, rerank=method)
    found = search(client, identity, rerank=[method])
    assert names(found) == [hit.path for hit in expected]
    assert found["stage"] == method
    assert found["seconds"][method] > 0


def test_the_page_is_told_which_methods_there_are(client: TestClient) -> None:
    offered = client.get("/api/v1/info").json()["features"]["rerank"]
    assert [one["name"] for one in offered] == list(METHODS)
    assert all(one["label"] and one["summary"] for one in offered)


def test_an_unknown_method_is_refused(client: TestClient, photo: bytes) -> None:
    body = {"photo": upload(client, photo), "rerank": ["sideways"]}
    answer = client.post("/api/v1/search", json=body)
    assert answer.status_code == 422
    assert "choose from average, alpha" in answer.json()["error"]


def test_several_photos_with_boxes_are_searched_for_together(
    client: TestClient, home: Home, photo: bytes
) -> None:
    box, name = (20.0, 10.0, 140.0, 100.0), "landmark-001/view-000.jpg"
    identity = numbers(client)[name]
    with Index.open(home / "model.solar") as index:
        expected = index.search_mean([photo, Part(home / "photos" / name, box)], 50, rerank=None)
    mine = upload(client, photo)
    found = search(client, mine, further=[{"photo": identity, "box": box}], rerank=[])
    assert names(found) == [hit.path for hit in expected]
    assert name not in names(found)
    scores = [hit["score"] for hit in found["hits"]]
    np.testing.assert_allclose(scores, [hit.score for hit in expected], atol=1e-4)
    # Another box is another search.
    other = search(client, mine, further=[{"photo": identity, "box": [0, 0, 80, 60]}], rerank=[])
    assert [hit["score"] for hit in other["hits"]] != scores


def test_results_that_were_judged_change_the_search(client: TestClient, home: Home) -> None:
    ids, query = numbers(client), "landmark-001/view-000.jpg"
    plain = names(search(client, ids[query], rerank=[]))
    like, unlike = plain[3:5], plain[:1]
    with Index.open(home / "model.solar") as index:
        expected = index.search_like(query, 50, like=like, unlike=unlike, rerank=None)
    marks = {"like": [ids[one] for one in like], "unlike": [ids[one] for one in unlike]}
    judged = {**marks, "rerank": []}
    found = search(client, ids[query], **judged)
    assert names(found) == [hit.path for hit in expected]
    assert (set(names(found)[:2]), names(found)[-1:]) == (set(like), unlike)
    pages = [search(client, ids[query], k=5, offset=offset, **judged) for offset in (0, 5, 10)]
    assert [one for page in pages for one in names(page)] == names(found)
    # Re-ranking and filters leave judged photos where they are, and out where they do not fit.
    ranked = search(client, ids[query], rerank=["average"], **marks)
    assert (names(ranked)[:2], names(ranked)[-1:]) == (names(found)[:2], unlike)
    only = search(client, ids[query], filter={"search": like[0]}, **judged)
    assert names(only) == [like[0]]
    assert names(search(client, ids[query], rerank=[])) == plain


def test_right_and_wrong_at_once_is_refused(client: TestClient) -> None:
    judged = {"photo": "1", "like": ["3", "4"], "unlike": ["03"]}
    answer = client.post("/api/v1/search", json=judged)
    assert (answer.status_code, "choose one" in answer.json()["error"]) == (422, True)
    assert len(names(search(client, "1", like=["3", "03"]))) == PHOTOS - 1
