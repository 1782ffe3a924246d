"""Filters, orders, facets and removal in the web API."""

import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.filtered_photos import LANDMARKS, NIGHT, PHONE, PHOTOS, VIEWS
from support.web_visits import Open, names, numbers, search, upload

from solar import SolarError
from solar.images import Root
from solar.index import Index
from solar.storage.catalogue import Metadata
from solar.storage.conditions import parse_where
from solar.storage.types import Photo
from solar.web import WebSettings, create_app
from solar.web.api import updating
from solar.web.api.filtering import MOST, Facets, plain, sorted_photos

QUERY = "landmark-000/view-000.jpg"


@pytest.fixture(scope="module")
def shop(filtered: Path) -> Iterator[TestClient]:
    """An app that no test changes."""
    with Index.open(filtered) as index:
        assert isinstance(index, Index)
        app = create_app(index, settings=WebSettings(rate=0.0))
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            yield client


@pytest.fixture
def own(open_app: Open, filtered: Path, tmp_path: Path) -> tuple[TestClient, Path]:
    """An app that may change its index, and where that is."""
    index = shutil.copytree(filtered, tmp_path / "i.solar")
    return open_app(index=index, writable=True), index


@pytest.mark.parametrize(
    "where",
    [
        ["tag=night"],
        ["path=landmark-002/"],
        ["taken>=2019-07-11", "taken<2020-07-12"],
        ["near=48.858,2.294,500m"],
        ["width>=1000"],
        ["tag=long exposure", "width<1000"],
        ["color=red", "floor>=3"],
        ["indoor=true"],
    ],
)
def test_conditions_are_those_of_the_index(
    shop: TestClient, filtered: Path, where: list[str]
) -> None:
    ids = numbers(shop)
    found = names(search(shop, ids[QUERY], rerank=[], filter={"where": where}))
    with Index.open(filtered) as index:
        assert found == [hit.path for hit in index.search(QUERY, 50, where=where, rerank=[])]
        holding = [
            photo.path
            for batch in index.engine.photos()
            for photo in batch
            if all(condition.holds(photo) for condition in parse_where(where))
        ]
    assert {*found, QUERY} == {*holding, QUERY}
    listed = shop.get("/api/v1/photos", params={"where": where}).json()
    assert [one["name"] for one in listed["photos"]] == holding
    assert listed["total"] == len(holding)


def test_a_root_with_and_without_a_name(shop: TestClient) -> None:
    ids = numbers(shop)
    phone = names(search(shop, ids[QUERY], rerank=[], filter={"root": "phone"}))
    others = names(search(shop, ids[QUERY], rerank=[], filter={"root": ""}))
    assert sorted(phone) == [f"phone//view-{view:03d}.jpg" for view in range(PHONE)]
    assert len(others) == LANDMARKS * VIEWS - 1
    assert not set(phone) & set(others)
    listed = shop.get("/api/v1/photos", params={"root": "phone", "search": "001"}).json()
    assert [one["name"] for one in listed["photos"]] == ["phone//view-001.jpg"]


@pytest.mark.parametrize("wrong", ["tag>night", "taken>=soon", "near=here", "score=3", ""])
def test_what_is_not_understood_is_told_as_on_the_command_line(
    shop: TestClient, wrong: str
) -> None:
    with pytest.raises(SolarError) as told:
        parse_where([wrong])
    asked = {"photo": "0", "filter": {"where": [wrong]}}
    for answer in (
        shop.post("/api/v1/search", json=asked),
        shop.get("/api/v1/photos", params={"where": wrong}),
    ):
        assert (answer.status_code, answer.json()) == (422, {"error": str(told.value)})


def test_a_field_that_no_photo_has_is_told(shop: TestClient) -> None:
    asked = {"photo": "0", "filter": {"where": ["colour=red"]}}
    for answer in (
        shop.post("/api/v1/search", json=asked),
        shop.get("/api/v1/photos", params={"where": "colour=red"}),
    ):
        assert answer.status_code == 422
        assert re.search(r"'colour'.* color, floor, indoor\b", answer.json()["error"])


def test_a_root_that_is_none_is_told(shop: TestClient) -> None:
    answer = shop.post("/api/v1/search", json={"photo": "0", "filter": {"root": "camera"}})
    assert answer.status_code == 422
    assert answer.json() == {
        "error": "No root of this collection is called 'camera': choose '', 'phone'."
    }


def test_ticked_photos_pass_the_conditions_too(shop: TestClient) -> None:
    ids = numbers(shop)
    like = [ids[NIGHT], ids["landmark-002/view-000.jpg"]]
    found = search(shop, ids[QUERY], rerank=[], like=like, filter={"where": ["path=landmark-001/"]})
    assert names(found)[0] == NIGHT
    assert all(name.startswith("landmark-001/") for name in names(found))


def test_results_are_sorted_and_keep_their_ranks(shop: TestClient) -> None:
    ids = numbers(shop)
    plain = search(shop, ids[QUERY], rerank=[])["hits"]
    for sort, key, backwards in (
        ("similarity", lambda hit: hit["score"], True),
        ("newest", lambda hit: hit["taken"] or "", True),
        ("oldest", lambda hit: hit["taken"] or "9999", False),
        ("name", lambda hit: hit["name"], False),
    ):
        # Photos of the phone have no time, and come last either way, by rank.
        expected = sorted(plain, key=key, reverse=backwards)
        whole = search(shop, ids[QUERY], rerank=[], sort=sort)["hits"]
        assert [hit["id"] for hit in whole] == [hit["id"] for hit in expected], sort
        assert {hit["id"]: hit["rank"] for hit in whole} == {h["id"]: h["rank"] for h in plain}
        pieces = [
            search(shop, ids[QUERY], rerank=[], sort=sort, k=4, offset=at) for at in range(0, 12, 4)
        ]
        assert [hit for piece in pieces for hit in piece["hits"]] == whole
        assert [piece["more"] for piece in pieces] == [True, True, False]
    listed = shop.get("/api/v1/photos", params={"sort": "newest", "limit": 3}).json()["photos"]
    assert [one["taken"][:10] for one in listed] == ["2020-07-12", "2020-07-11", "2020-07-10"]


def test_names_are_sorted_by_their_numbers() -> None:
    paths = ["b/10.jpg", "a/9.jpg", "B/9.jpg", "a/10.jpg", "9.jpg", f"{'1' * 5000}.jpg", "a.jpg"]
    found = sorted_photos(map(Photo, paths), "name", lambda photo: photo)
    assert [photo.path for photo in found] == [
        *("9.jpg", paths[5], "a.jpg", "a/9.jpg", "a/10.jpg", "B/9.jpg", "b/10.jpg")
    ]


@pytest.mark.parametrize(
    ("words", "count"),
    [("LANDMARK_001", VIEWS), ("view-001 landmark-000", 1), ("2019", 3), ("001 2019-07-12", 1)],
)
def test_photos_are_found_by_words_of_their_names_and_times(
    shop: TestClient, words: str, count: int
) -> None:
    page = shop.get("/api/v1/photos", params={"search": words}).json()
    assert page["total"] == count


def test_marks_cases_and_accents_are_the_same_in_names() -> None:
    assert plain("Sydney_Opera-House.JPG") == plain("sydney opera house jpg")
    assert plain("Timișoara") == "timisoara"


def test_photos_are_listed_by_their_whole_names(shop: TestClient) -> None:
    wanted = ["phone//view-001.jpg", "gone.jpg", NIGHT]
    page = shop.get("/api/v1/photos", params={"name": wanted}).json()
    assert [one["name"] for one in page["photos"]] == [wanted[0], wanted[2]]
    assert page["photos"][1]["tags"] == ["long exposure", "night"]
    assert page["photos"][1]["fields"] == {"color": "red", "floor": 3, "indoor": False}
    assert page["photos"][0]["fields"] == {}


def test_facets_say_what_there_is(shop: TestClient) -> None:
    there = shop.get("/api/v1/facets").json()
    assert there == {
        "photos": PHOTOS,
        "folders": [{"name": f"landmark-{n:03d}/", "photos": VIEWS} for n in range(LANDMARKS)],
        "folders_total": LANDMARKS,
        "tags": [{"name": "long exposure", "photos": 1}, {"name": "night", "photos": 1}],
        "tags_total": 2,
        "roots": [
            {"name": "", "shown": "photos", "photos": LANDMARKS * VIEWS},
            {"name": "phone", "shown": "phone", "photos": PHONE},
        ],
        "taken": ["2018-07-10T18:30:00", "2020-07-12T18:30:00"],
        "months": [{"name": f"{year}-07", "photos": 3} for year in (2018, 2019, 2020)],
        "fields": ["color", "floor", "indoor"],
        "with_time": LANDMARKS * VIEWS,
        "with_position": 1,
    }
    some = shop.get("/api/v1/facets", params={"search": "NIGHT"}).json()
    assert ([one["name"] for one in some["tags"]], some["folders"]) == (["night"], [])


class Drawn:
    """Stands in for a huge collection: `folders` of three photos each, two levels deep."""

    def __init__(self, folders: int) -> None:
        self.revision, self.walks = 0, 0
        self.index = SimpleNamespace(roots=SimpleNamespace(roots=[Root("/a"), Root("/b", "b")]))
        self._paths = [
            f"{root}top/{n:05d}/{m}.jpg"
            for n in range(folders)
            for m in range(3)
            for root in ["b//" if n % 10 == 0 else ""]
        ]

    def numbered(self) -> Iterator[tuple[int, Photo]]:
        self.walks += 1
        return enumerate(map(Photo, self._paths))

    def root(self, path: str) -> str:
        return "b" if path.startswith("b//") else ""


def test_facets_of_many_folders_are_bounded_and_counted_once_per_revision() -> None:
    drawn: Any = Drawn(2000)
    facets = Facets(drawn)
    there = facets.answer()
    assert len(there.folders) == MOST
    assert there.folders_total == 2002
    largest = {one.name: one.photos for one in there.folders if one.photos > 3}
    assert largest == {"top/": 5400, "b//top/": 600}
    assert [root.photos for root in there.roots] == [5400, 600]
    assert [one.name for one in facets.answer("0199").folders] == [
        *("b//top/01990/", *(f"top/{number:05d}/" for number in (199, *range(1991, 2000)))),
    ]
    assert drawn.walks == 1
    drawn.revision += 1
    facets.answer()
    assert drawn.walks == 2


def removed(client: TestClient, *ids: str, **given: Any) -> Any:
    return client.post("/api/v1/photos/remove", json={"photos": list(ids)}, **given)


def test_photos_leave_the_index_and_no_folder(own: tuple[TestClient, Path]) -> None:
    client, index = own
    ids = numbers(client)
    before = search(client, ids[QUERY], rerank=[])
    assert NIGHT in names(before)
    map_before = client.get("/api/v1/facets").json()["photos"]
    answer = removed(client, ids[NIGHT], ids["phone//view-000.jpg"], ids[NIGHT])
    assert answer.json() == {"removed": 2, "photos": PHOTOS - 2}
    now = numbers(client)
    assert now == {
        name: one for name, one in ids.items() if name not in (NIGHT, "phone//view-000.jpg")
    }
    assert NIGHT not in names(search(client, ids[QUERY], rerank=[]))
    assert client.get(f"/api/v1/photos/{ids[NIGHT]}").status_code == 404
    assert client.get(f"/api/v1/photos/{ids[NIGHT]}/thumbnail").status_code == 404
    assert client.get("/api/v1/info").json()["photos"] == map_before - 2
    with Index.open(index) as opened:
        assert NIGHT not in opened
        assert len(opened) == PHOTOS - 2
        places = [Path(root.path) for root in opened.roots.roots]
    assert (places[0] / NIGHT).is_file()
    assert (places[1] / "view-000.jpg").is_file()
    # What is gone already is passed over, so that a request can be sent again; no photo is not.
    never = removed(client, ids[QUERY], "12345")
    assert (never.status_code, never.json()) == (404, {"error": "There is no photo 12345."})
    assert len(numbers(client)) == PHOTOS - 2
    again = removed(client, ids[QUERY], ids[NIGHT])
    assert again.json() == {"removed": 1, "photos": PHOTOS - 3}


def test_a_busy_index_is_told_and_no_removal_stops_the_server(
    own: tuple[TestClient, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, index = own
    monkeypatch.setattr(updating, "_ATTEMPTS", 1)
    collection, threads = client.app.state.service.collection, []
    forget = collection.forget

    def noted(paths: list[str]) -> None:
        threads.append(threading.current_thread().name)
        forget(paths)

    monkeypatch.setattr(collection, "forget", noted)
    with Metadata(index).writing():
        answer = removed(client, "0")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert "try again in 10 s" in answer.json()["error"]
    assert removed(client, "0").json() == {"removed": 1, "photos": PHOTOS - 1}
    assert [name.startswith("work") for name in threads] == [True]


def test_pages_of_another_model_go_on_where_photos_are_gone(
    open_app: Open, copy: Path, photo: bytes
) -> None:
    given = {"index": copy / "model.solar", "photos": copy / "photos", "writable": True}
    client = open_app(models=("other",), **given)
    query = {"photo": upload(client, photo), "model": "other", "rerank": []}
    first = search(client, **query, k=50)["hits"]
    gone = [first[0], first[4]]
    assert removed(client, *(one["id"] for one in gone)).status_code == 200
    pages: list[str] = []
    while (page := search(client, **query, k=3, offset=len(pages)))["hits"]:
        pages += names(page)
        assert page["more"] is (len(pages) < len(first) - 2)
    assert pages == [one["name"] for one in first if one not in gone]


def test_who_may_not_add_may_not_remove(
    own: tuple[TestClient, Path], shop: TestClient, photo: bytes
) -> None:
    client, index = own
    refused = removed(shop, "0")
    assert refused.status_code == 403
    assert refused.json() == {
        "error": "Nothing can be changed here: start the server with --writable."
    }
    with Index.open(index) as opened:
        assert isinstance(opened, Index)
        settings = WebSettings(writable=True, token="sesame")
        secret = TestClient(create_app(opened, settings=settings), "http://127.0.0.1:8000")
        assert removed(secret, "0").status_code == 401
    elsewhere = {"Origin": "https://elsewhere.example"}
    assert removed(client, "0", headers=elsewhere).status_code == 403
    identity = upload(client, photo)
    answer = removed(client, identity)
    assert (answer.status_code, answer.json()) == (
        422,
        {"error": f"{identity} is not a photo of the index."},
    )
    assert len(numbers(client)) == PHOTOS
