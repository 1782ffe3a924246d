"""Several indexes in one server: each at its own path, the first as a server of one has it."""

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.running import solar
from support.web_server import served
from support.web_visits import PHOTOS, Home, Open, finished_job, upload

from solar.client import Client
from solar.errors import SolarError
from solar.index import Index
from solar.web import WebSettings
from solar.web.app import create_site

B = "/indexes/b%20%231"  # an index called "b #1"


@pytest.fixture(scope="module")
def folder(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Indexes `a`, `b #1` and `c`; a and b of one model, b with photos of its own."""
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(home / "model.solar", folder / "a.solar")
    shutil.copytree(home / "model.solar", folder / "b #1.solar")
    shutil.copytree(home / "other.solar", folder / "c.solar")
    shutil.copytree(home / "photos", folder / "photos")
    with Index.open(folder / "b #1.solar") as index:
        index.remove(["landmark-000/view-000.jpg"])
        index.restore(["landmark-000/view-000.jpg"])  # the next update may bring it back
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[TestClient]:
    names = ("a", "b #1", "c")
    opened = [Index.open(folder / f"{name}.solar") for name in names]
    given = {"photos": folder / "photos", "rate": 0.0, "token": "open-sesame", "writable": True}
    settings = [WebSettings(name, **given) for name in names]  # type: ignore[arg-type]
    app = create_site(list(zip(opened, settings, strict=True)))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        client.headers["Authorization"] = "Bearer open-sesame"
        yield client
    for index in opened:
        index.close()


def test_each_index_has_its_page_and_its_api_and_the_first_the_root_too(site: TestClient) -> None:
    known = [site.get(f"{home}/api/v1/info").json() for home in ("", "/indexes/a", B)]
    assert known[0] == known[1]
    assert [(one["name"], one["photos"]) for one in known[1:]] == [
        ("a", PHOTOS),
        ("b #1", PHOTOS - 1),
    ]
    assert known[2]["indexes"] == [
        {"name": "a", "address": "/"},
        {"name": "b #1", "address": f"{B}/"},
        {"name": "c", "address": "/indexes/c/"},
    ]
    for page in ("/", "/indexes/a/", f"{B}/"):
        assert "<html" in site.get(page).text
    assert site.get(f"{B}/static/js/main.js").status_code == 200
    moved = site.get(B, follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (308, f"{B}/")
    missing = site.get("/indexes/nobody/api/v1/info")
    assert missing.status_code == 404
    assert "no index 'nobody'" in missing.json()["error"]


def test_an_uploaded_photo_is_searched_with_in_every_index(site: TestClient, photo: bytes) -> None:
    asked = {"photo": upload(site, photo), "rerank": [], "k": 3}
    found = [site.post(f"{home}/api/v1/search", json=asked).json() for home in ("", B)]
    assert [one["hits"][0]["name"] for one in found] == ["landmark-002/view-001.jpg"] * 2
    # b lacks the first photo: one name, two numbers, and each picture at its own index
    assert found[0]["hits"][0]["id"] != found[1]["hits"][0]["id"]
    picture = found[1]["hits"][0]["thumbnail"]
    assert picture.startswith(f"{B}/api/v1/photos/")
    assert site.get(picture).headers["content-type"] == "image/jpeg"


def test_indexes_of_one_model_share_its_network(site: TestClient) -> None:
    assert site.get("/readyz").status_code in (200, 503)
    site.get("/indexes/c/api/v1/info")  # which waits for the last network
    first, second, third = (_service(site, name) for name in ("", "b #1", "c"))
    encoders = [one.model(None).index.encoder for one in (first, second, third)]
    assert encoders[0] is encoders[1] is not encoders[2]


def test_queries_at_the_same_time_are_described_by_the_network_of_their_index(
    site: TestClient, photo: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.get("/indexes/c/api/v1/info")  # which waits for the last network
    service, homes = _service(site, ""), ("", B, "/indexes/c")
    others = _service(site, "c")
    # As two files of one name in two folders are called.
    monkeypatch.setattr(others.model(None), "name", service.model(None).name)
    box = {"photo": upload(site, photo), "rerank": [], "k": 3, "box": [8, 8, 150, 110]}

    def ask(home: str) -> list[tuple[str, float]]:
        hits = site.post(f"{home}/api/v1/search", json=box).json()["hits"]
        return [(hit["name"], round(hit["score"], 3)) for hit in hits]

    together: list[int] = []
    network, held = service.network, threading.Event()
    monkeypatch.setattr(network, "_watch", lambda tasks, _: together.append(tasks))
    site.portal.start_task_soon(network.alone, held.wait)
    with ThreadPoolExecutor(3) as visitors:
        answers = [visitors.submit(ask, home) for home in homes]
        deadline = time.monotonic() + 20
        while network.waiting < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        held.set()
        found = [answer.result() for answer in answers]
    site.portal.call(network.alone, dict)  # all before it is counted
    assert max(together) == 2  # a and b, which share a network
    for one in (service, others):
        one.searcher.forget()
    assert found == [ask(home) for home in homes]
    assert found[0] != found[2]


def test_a_picture_signed_for_one_index_opens_none_of_another(site: TestClient) -> None:
    listed = site.get(f"{B}/api/v1/photos?limit=1").json()["photos"][0]
    bare = {"Authorization": ""}
    assert site.get(listed["thumbnail"], headers=bare).status_code == 200
    for home in ("", "/indexes/c"):
        moved = listed["thumbnail"].replace(B, home)
        assert site.get(moved, headers=bare).status_code == 401
    assert site.get(f"{B}/api/v1/info", headers=bare).status_code == 401


def test_jobs_and_numbers_are_each_indexs_own(site: TestClient) -> None:
    job = site.post(f"{B}/api/v1/sync").json()["job"]
    assert site.get(f"/api/v1/jobs/{job}").status_code == 404
    assert finished_job(site, job, home=B)["state"] == "done"
    assert site.get(f"{B}/api/v1/info").json()["photos"] == PHOTOS  # it had lacked one
    text = site.get("/metrics").text
    assert text.count("# TYPE solar_index_photos gauge") == 1
    for name in ("a", "b #1", "c"):
        assert f'solar_index_photos{{index="{name}"}} {PHOTOS}' in text
    assert 'solar_requests_total{index="b #1",method="POST",route="/api/v1/sync"' in text
    assert "\nsolar_queue_length 0" in text  # which all share


def test_one_index_alone_is_as_ever(client: TestClient) -> None:
    assert client.get("/api/v1/info").json()["indexes"] == []
    assert f'\nsolar_index_photos{{index="toy"}} {PHOTOS}' in client.get("/metrics").text


def test_two_of_one_name_are_refused(home: Home, open_app: Open) -> None:
    with Index.open(home / "model.solar") as index:
        twice = [(index, WebSettings("photos")), (index, WebSettings("photos"))]
        with pytest.raises(SolarError, match="'photos'"):
            create_site(twice)


def test_the_command_serves_several_below_a_path(folder: Path) -> None:
    options = ("--root-path", "/mine", "--rate", 0, "--allow-root", folder.parent)
    indexes = (folder / "a.solar", folder / "c.solar")
    photo = folder / "photos" / "landmark-002" / "view-001.jpg"
    sentence = solar("serve", *indexes, "--photos", folder, expect=2).stderr
    assert "--photos applies to one index" in sentence
    with served(*indexes, *options) as (_, host, port):
        address = f"http://{host}:{port}/mine"
        assert Client(address).indexes() == ["a", "c"]
        second = Client(address, index="c")
        assert second.info()["name"] == "c"
        assert second.picture(second.photos()["photos"][0]).startswith(b"\xff\xd8")
        with pytest.raises(SolarError, match="'d'"):
            Client(address, index="d").upload(photo.read_bytes() + bytes(200_000))
        found = solar("search", f"{address}/indexes/c/", photo, "-k", 1)
        assert "landmark-002/view-001.jpg" in found.stdout


def _service(site: TestClient, name: str) -> Any:
    services = site.app.state.services
    return services[name or "a"]
