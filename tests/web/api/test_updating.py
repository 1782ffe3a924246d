"""The collection is brought up to date with its folders while the app runs."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.nasty_folder import GOOD, fill, photo
from support.web_visits import PHOTOS, Home, Open, finished_job, names, numbers, search, upload

import solar.web.api.updating as updating
from solar.images import Roots
from solar.index import Index
from solar.index.add import add
from solar.index.build import build
from solar.web.api.updating import without_places


def update(client: TestClient) -> dict[str, Any]:
    answer = client.post("/api/v1/sync", json={})
    assert answer.status_code == 202, answer.text
    return finished_job(client, answer.json()["job"])


def first_hit(client: TestClient, data: bytes) -> tuple[str, float]:
    hit = search(client, upload(client, data), k=1)["hits"][0]
    return hit["name"], hit["score"]


def test_a_nasty_folder_is_served_and_kept_up_to_date(
    open_app: Open, home: Home, tmp_path: Path
) -> None:
    pytest.importorskip("pillow_heif", reason="no wheel for this machine")
    folder = tmp_path / "photos"
    bad = fill(folder)
    build(folder, tmp_path / "a.solar", model=home / "model.safetensors").close()
    client = open_app(index=tmp_path / "a.solar", writable=True)
    ids = numbers(client)
    assert ids.keys() == GOOD
    for identity in ids.values():
        assert client.get(f"/api/v1/photos/{identity}/thumbnail").status_code == 200
        assert len(names(search(client, identity))) == len(GOOD) - 1
    (folder / "a.jpg").write_bytes(photo(201))
    (folder / "b.png").rename(folder / "deep" / "renamed.png")
    (folder / "[/b] & <i>.jpg").unlink()
    (folder / "<b onload=x>.jpg").write_bytes(photo(202))
    before = client.get(f"/api/v1/photos/{ids['a.jpg']}").json()["thumbnail"]
    old_picture = client.get(before).content
    job = update(client)
    assert job["error"] is None
    assert job["changes"] == {
        **{"new": 1, "changed": 1, "moved": 1, "deleted": 1},
        "skipped": len(bad),
    }
    assert (job["done"], job["total"]) == (2, 2)
    now = numbers(client)
    assert now.keys() == (GOOD - {"b.png", "[/b] & <i>.jpg"}) | {
        "deep/renamed.png",
        "<b onload=x>.jpg",
    }
    assert client.get("/api/v1/info").json()["photos"] == len(now)
    # Those that stay keep their ids, one that moved as well; nobody gets that of one that is gone.
    assert all(now[name] == ids[name] for name in now.keys() & ids.keys())
    assert now["deep/renamed.png"] == ids["b.png"]
    assert now["<b onload=x>.jpg"] not in ids.values()
    gone = ids["[/b] & <i>.jpg"]
    assert client.get(f"/api/v1/photos/{gone}").status_code == 404
    after = client.get(f"/api/v1/photos/{ids['a.jpg']}").json()["thumbnail"]
    assert after != before
    assert client.get(after).content != old_picture
    assert first_hit(client, photo(201)) == ("a.jpg", pytest.approx(1, abs=1e-3))
    assert first_hit(client, photo(202)) == ("<b onload=x>.jpg", pytest.approx(1, abs=1e-3))
    assert len(names(search(client, ids["a.jpg"]))) == len(now) - 1
    again = update(client)
    assert again["changes"] == {
        **{"new": 0, "changed": 0, "moved": 0, "deleted": 0},
        "skipped": len(bad),
    }


def test_visitors_are_answered_while_it_runs_and_a_second_update_is_the_same(
    writable: TestClient, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, go_on, original = numbers(writable), threading.Event(), updating.sync
    (copy / "photos" / "new.jpg").write_bytes(photo(203))

    def slow(*given: Any, **options: Any) -> Any:
        assert go_on.wait(30)
        return original(*given, **options)

    monkeypatch.setattr(updating, "sync", slow)
    first = writable.post("/api/v1/sync").json()["job"]
    assert writable.post("/api/v1/sync").json()["job"] == first
    assert writable.get(f"/api/v1/jobs/{first}").json()["state"] == "running"
    assert len(search(writable, ids["landmark-000/view-000.jpg"])["hits"]) == PHOTOS - 1
    go_on.set()
    assert finished_job(writable, first)["changes"]["new"] == 1
    with Index.open(copy / "model.solar") as index:
        assert index.roots == Roots.at(copy / "photos")  # where it is true to them
    assert writable.post("/api/v1/sync").json()["job"] != first


def test_where_a_folder_is_gone_one_sentence_says_so_without_its_path(
    open_app: Open, copy: Path, home: Home
) -> None:
    build(copy / "photos", copy / "own.solar", model=home / "model.safetensors").close()
    client = open_app(index=copy / "own.solar", writable=True)
    shutil.move(copy / "photos", copy / "elsewhere")
    job = update(client)
    assert "photos holds no photo any more" in job["error"]
    assert str(copy) not in job["error"]
    assert job["changes"] is None
    assert len(numbers(client)) == PHOTOS  # nothing is forgotten


def test_it_may_only_be_done_where_the_app_may_write(
    client: TestClient, writable: TestClient
) -> None:
    assert client.get("/api/v1/info").json()["settings"]["writable"] is False
    answer = client.post("/api/v1/sync")
    assert (answer.status_code, "--writable" in answer.json()["error"]) == (403, True)
    assert writable.get("/api/v1/info").json()["settings"]["writable"] is True


def test_a_server_that_stops_breaks_off_an_update(
    home: Home, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solar.web import WebSettings, create_app

    begun = threading.Event()

    def endless(*_: Any, progress: Any, **__: Any) -> None:
        while True:
            progress("Describing", 1, 10**6)
            begun.set()
            time.sleep(0.01)

    monkeypatch.setattr(updating, "sync", endless)
    settings = WebSettings(photos=copy / "photos", writable=True)
    with Index.open(copy / "model.solar") as index:
        with TestClient(create_app(index, settings=settings), base_url="http://127.0.0.1") as app:
            identity = app.post("/api/v1/sync").json()["job"]
            assert begun.wait(30)
            job = app.app.state.service.jobs.get(identity)
        assert job.state == "done"
        assert "stopped" in job.error


def test_one_folder_cannot_stand_for_several(open_app: Open, home: Home, tmp_path: Path) -> None:
    for camera in ("a", "b"):
        (tmp_path / camera).mkdir()
        (tmp_path / camera / "1.jpg").write_bytes(photo(ord(camera)))
    sources = [tmp_path / "a", tmp_path / "b"]
    build(sources, tmp_path / "i.solar", model=home / "model.safetensors").close()
    client = open_app(index=tmp_path / "i.solar", photos=tmp_path / "a", writable=True)
    assert "solar index relocate" in update(client)["error"]


def test_an_index_learns_where_its_photos_are(open_app: Open, home: Home, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(photo(1))
    model = home / "model.safetensors"
    with build(tmp_path / "a", tmp_path / "a.solar", model=model) as made:
        spec, vector = made.spec, made.engine.lookup(["1.jpg"])["1.jpg"][1]
    Index.create(tmp_path / "i.solar", vector[None], ["1.jpg"], spec=spec).close()
    lost = open_app(index=tmp_path / "a.solar", photos=tmp_path / "b", writable=True)
    assert update(lost)["error"] == "None of the 1 photos of a is in b: check the path."
    client = open_app(index=tmp_path / "i.solar", photos=tmp_path / "a", writable=True)
    (tmp_path / "a" / "2.jpg").write_bytes(photo(2))
    assert update(client)["changes"]["new"] == 1
    with Index.open(tmp_path / "i.solar") as index:
        assert index.roots == Roots.at(tmp_path / "a")


def test_photos_of_every_root_are_shown_found_and_labelled(
    open_app: Open, home: Home, tmp_path: Path
) -> None:
    for seed, name in enumerate(("A/rome/1.jpg", "A/oslo/1.jpg", "B/rome/1.jpg", "B/oslo/1.jpg")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(photo(300 + seed))
    build(tmp_path / "A", tmp_path / "i.solar", model=home / "model.safetensors").close()
    add([tmp_path / "B"], tmp_path / "i.solar").index.close()
    client = open_app(index=tmp_path / "i.solar", writable=True)
    ids = numbers(client)
    assert ids.keys() == {"rome/1.jpg", "oslo/1.jpg", "B//rome/1.jpg", "B//oslo/1.jpg"}
    page = client.get("/api/v1/photos", params={"label": "rome"}).json()
    assert {one["name"] for one in page["photos"]} == {"rome/1.jpg", "B//rome/1.jpg"}
    for seed, name in ((300, "rome/1.jpg"), (302, "B//rome/1.jpg")):
        assert first_hit(client, photo(seed))[0] == name
        assert client.get(f"/api/v1/photos/{ids[name]}/photo").status_code == 200
    found = search(client, ids["rome/1.jpg"], filter={"label": "rome"})
    assert names(found) == ["B//rome/1.jpg"]
    assert found["hits"][0]["same_label"] is True
    (tmp_path / "B" / "top.jpg").write_bytes(photo(310))
    assert update(client)["changes"]["new"] == 1
    with Index.open(tmp_path / "i.solar") as index:
        assert "B//top.jpg" in index
    labelled = open_app(index=tmp_path / "i.solar", labels=True)
    [top] = labelled.get("/api/v1/photos", params={"search": "top"}).json()["photos"]
    assert top["label"] == "B"


def test_sentences_for_visitors_name_no_place() -> None:
    told = without_places(
        "/data/my photos is gone, see /etc/solar/a.txt or a/b.", ["/data/my photos"]
    )
    assert told == "my photos is gone, see a.txt or a/b."
    assert without_places("/x/y", ["/"]) == "y"


def test_a_removed_photo_stays_out_after_an_update_and_can_be_put_back(
    writable: TestClient, open_app: Open, copy: Path
) -> None:
    ids = numbers(writable)
    name, other = list(ids)[:2]
    writable.post("/api/v1/photos/remove", json={"photos": [ids[name], ids[other]]})
    job = update(writable)
    assert (job["changes"]["new"], job["changes"]["skipped"]) == (0, 2)
    assert name not in numbers(writable)
    assert writable.get("/api/v1/photos/removed").json() == {"names": [name, other]}
    readable = open_app(index=copy / "model.solar", photos=copy / "photos")
    wanted = {"names": [name, "none.jpg"]}
    assert readable.post("/api/v1/photos/restore", json=wanted).status_code == 403
    answer = writable.post("/api/v1/photos/restore", json=wanted).json()
    assert (answer["restored"], answer["photos"]) == (1, PHOTOS - 1)
    assert [one["name"] for one in answer["failed"]] == ["none.jpg"]
    assert writable.get("/api/v1/photos/removed").json() == {"names": [other]}
    found = first_hit(writable, (copy / "photos" / name).read_bytes())
    assert found == (name, pytest.approx(1, abs=1e-3))
    assert update(writable)["changes"]["new"] == 0
