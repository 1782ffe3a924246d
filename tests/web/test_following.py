"""A running server and changes that another process makes to its index."""

import os
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.nasty_folder import photo
from support.web_visits import PHOTOS, Home, Open, names, numbers, search, upload

from solar.index import Index
from solar.index.add import add


@pytest.fixture
def client(open_app: Open, copy: Path) -> TestClient:
    return open_app(index=copy / "model.solar", photos=copy / "photos")


def test_photos_that_another_process_removes_are_found_no_more(
    client: TestClient, copy: Path
) -> None:
    known = numbers(client)
    asked = known["landmark-001/view-000.jpg"]
    gone = search(client, asked)["hits"][0]
    with Index.open(copy / "model.solar") as index:
        index.remove([gone["name"]])
    assert gone["name"] not in names(search(client, asked))
    assert client.get(f"/api/v1/photos/{gone['id']}").status_code == 404
    del known[gone["name"]]
    assert numbers(client) == known  # the others keep their ids


def test_photos_that_another_process_adds_are_found_by_the_same_query(
    client: TestClient, copy: Path
) -> None:
    identity, before = upload(client, photo(1)), numbers(client)
    assert search(client, identity)["hits"][0]["score"] < 0.999
    (copy / "photos" / "new.jpg").write_bytes(photo(1))
    add([copy / "photos" / "new.jpg"], copy / "model.solar").index.close()
    first = search(client, identity)["hits"][0]
    assert (first["name"].rpartition("/")[2], first["id"]) == ("new.jpg", str(PHOTOS))
    assert numbers(client) == {**before, first["name"]: str(PHOTOS)}


def test_a_folder_that_somebody_else_names_meanwhile_is_not_shown(
    open_app: Open, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_app(index=copy / "model.solar")
    for seed, folder in enumerate(("theirs", "mine")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.jpg").write_bytes(photo(seed))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("SOLAR_CACHE", str(tmp_path / "their-cache"))
        add([tmp_path / "theirs"], copy / "model.solar").index.close()
    add([tmp_path / "mine"], copy / "model.solar").index.close()
    known = numbers(client)
    for name, status in (("theirs//theirs.jpg", 404), ("mine//mine.jpg", 200)):
        assert client.get(f"/api/v1/photos/{known[name]}/thumbnail").status_code == status
    assert client.get("/api/v1/photos/0/thumbnail").status_code == 200


def test_nothing_is_read_again_where_nothing_changed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = client.app.state.service.collection.revision
    for _ in range(3):
        client.get("/api/v1/info")
    assert client.app.state.service.collection.revision == revision


def test_photos_that_visitors_add_are_no_reason_to_read_all(
    writable: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support.web_visits import finished_job

    service, read = writable.app.state.service, []
    engine, fill = service.collection.index.engine, service.collection.index.engine.fill

    def fill_and_follow(*given: Any) -> None:
        fill(*given)
        service.follower.follow()  # as the request of another visitor does, right now

    monkeypatch.setattr(engine, "fill", fill_and_follow)
    monkeypatch.setattr(service.collection, "update", lambda *_: read.append(1))
    answer = writable.post("/api/v1/photos", files={"photos": ("a.jpg", photo(1))})
    assert len(finished_job(writable, answer.json()["job"])["added"]) == 1
    service.follower.follow()
    assert read == []


def test_a_vectors_file_cut_short_under_a_server_is_told(
    client: TestClient, home: Home, copy: Path
) -> None:
    assert search(client, "0")["hits"]
    [vectors] = (copy / "model.solar" / "segments").iterdir()
    os.truncate(vectors, 100)
    answer = client.post("/api/v1/search", json={"photo": "1"})
    assert answer.status_code == 422
    assert "is cut short" in answer.json()["error"]
    assert str(copy) not in answer.json()["error"]
    assert client.get("/api/v1/info").status_code == 200
    vectors.write_bytes(next((home / "model.solar" / "segments").iterdir()).read_bytes())
    assert search(client, "1")["hits"]
