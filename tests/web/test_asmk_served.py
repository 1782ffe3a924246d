"""An index of local features (ASMK) in the web app: all but what takes vectors."""

import io
import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from support.running import solar
from support.web_browser import Visit, finished
from support.web_server import served
from support.web_visits import PHOTOS, Home, Open, finished_job, names, numbers, search, upload

from solar.demo import toy
from solar.index import Index
from solar.web import WebSettings, create_app

pytest_plugins = ["support.web_browser_fixtures"]

VIEW = "landmark-001/view-000.jpg"


@pytest.fixture(scope="module")
def words(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of visual words of the toy photos."""
    place = tmp_path_factory.mktemp("asmk") / "words.asmk"
    solar("index", "build", home / "photos", "--method", "asmk", "--words", 64, "-o", place)
    return place


def test_it_is_searched_with_indexed_and_uploaded_photos(
    home: Home, open_app: Open, words: Path, photo: bytes
) -> None:
    client = open_app(index=words)
    known = numbers(client)
    with Index.open(words) as index:
        found = search(client, known[VIEW], k=5)
        expected = index.search(home / "photos" / VIEW, 5)
        assert names(found) == [hit.path for hit in expected]
        assert [hit["score"] for hit in found["hits"]] == pytest.approx(
            [hit.score for hit in expected], abs=1e-5
        )
        box = (10, 10, 120, 100)
        part = search(client, upload(client, photo), box=list(box), k=3)
        assert names(part) == [hit.path for hit in index.search(photo, 3, box=box)]
    assert names(search(client, known[VIEW], include_self=True))[0] == VIEW
    both = search(client, known[VIEW], further=[{"photo": upload(client, photo)}])
    assert VIEW not in names(both)
    filtered = search(client, known[VIEW], filter={"search": "landmark-002"})
    assert all(name.startswith("landmark-002/") for name in names(filtered))


def test_results_are_verified_where_a_visitor_asks(open_app: Open, words: Path) -> None:
    client = open_app(index=words)
    known = numbers(client)
    assert client.get("/api/v1/info").json()["features"]["usual"] == []
    assert search(client, known[VIEW])["hits"][0]["inliers"] is None
    best = search(client, known[VIEW], rerank=["verify"])["hits"][0]
    assert best["name"].startswith("landmark-001/")
    assert best["inliers"] > 0


def test_what_takes_vectors_is_not_offered_and_refused_in_one_sentence(
    open_app: Open, words: Path
) -> None:
    client = open_app(index=words)
    told = client.get("/api/v1/info").json()
    features = told["features"]
    assert told["photos"] == PHOTOS
    assert [method["name"] for method in features["rerank"]] == ["verify"]
    assert features["map"] is False
    assert told["models"] == [{"name": "rootsift", "attention": [], "why": False, "text": False}]
    known = numbers(client)
    other = search(client, known[VIEW])["hits"][0]["id"]
    refused = {
        "search": [
            {"text": "a red door"},
            {"photo": known[VIEW], "like": [other]},
            {"photo": known[VIEW], "filter": {"min_probability": 0.5}},
        ],
        "why": [{"a": known[VIEW], "b": other}],
        "attention": [{"photo": known[VIEW], "x": 5, "y": 5, "layer": 4}],
    }
    for path, bodies in refused.items():
        for body in bodies:
            answer = client.post(f"/api/v1/{path}", json=body)
            assert answer.status_code == 422, answer.text
            assert answer.json()["error"].endswith(".")
    answer = client.get("/api/v1/map")
    assert answer.status_code == 422
    assert "compares local features" in answer.json()["error"]


def test_it_can_be_compared_with_embeddings_both_ways(home: Home, words: Path) -> None:
    with Index.open(words) as asmk, Index.open(home / "model.solar") as vectors:
        for main, other, name in ((vectors, asmk, "words"), (asmk, vectors, "vectors")):
            settings = WebSettings(name="toy", rate=0.0)
            app = create_app(main, models={name: other}, settings=settings)
            with TestClient(app, base_url="http://127.0.0.1:8000") as client:
                photo = numbers(client)[VIEW]
                plain = [
                    names(search(client, photo, rerank=[], **chosen))
                    for chosen in ({}, {"model": name})
                ]
                assert [sorted(one) for one in plain] != [[], []]
                assert plain[0] != plain[1]
                usual = search(client, photo, model=name)  # as the first is ranked by default
                assert usual["complete"]


def test_expansion_is_refused_where_there_are_no_embeddings(home: Home, words: Path) -> None:
    with Index.open(words) as asmk, Index.open(home / "model.solar") as vectors:
        app = create_app(vectors, models={"words": asmk}, settings=WebSettings("toy", rate=0.0))
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            asked = {"photo": "3", "model": "words", "rerank": ["alpha"]}
            answer = client.post("/api/v1/search", json=asked)
            assert answer.status_code == 422
            assert "alpha need embeddings" in answer.json()["error"]


def test_photos_are_added_to_it(open_app: Open, words: Path, home: Home, tmp_path: Path) -> None:
    shutil.copytree(words, tmp_path / "words.asmk")
    shutil.copytree(home / "photos", tmp_path / "photos")
    client = open_app(index=tmp_path / "words.asmk", photos=tmp_path / "photos", writable=True)
    new = io.BytesIO()
    toy.landmark(77, 0, size=(320, 240)).save(new, "PNG")
    sent = {"photos": ("new.png", new.getvalue())}
    job = finished_job(client, client.post("/api/v1/photos", files=sent).json()["job"])
    assert (len(job["added"]), job["failed"]) == (1, [])
    found = search(client, upload(client, new.getvalue()))
    assert names(found)[0] == "uploads/new.png"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_what_there_is(words: Path, visit: Visit, width: int) -> None:
    with served(words, "--rate", 0) as (_, host, port):
        page = visit(f"http://{host}:{port}/#/?q=3", viewport={"width": width, "height": 800})
        finished(page)
        assert page.get_by_role("link", name="Map").count() == 0
        assert page.get_by_label("Re-ranking").count() == 0
        page.locator(".found-head summary").click()
        assert page.get_by_text("Local features").is_visible()
        page.locator(".card").first.get_by_role("button", name="More").click()
        assert page.get_by_role("menuitem", name="Matching details").count() == 1
        assert page.get_by_role("menuitem", name="More like this").count() == 0
        page.keyboard.press("Escape")
        page.locator(".card a").first.focus()
        page.keyboard.press("+")  # nothing is marked
        assert page.get_by_role("group", name="Marked results").is_hidden()
        page.shoot(f"asmk-{width}")
