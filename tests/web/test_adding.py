import shutil
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from support.web_visits import PHOTOS, Home, Open, names, search, upload

from solar.demo import toy
from solar.errors import SolarError
from solar.search import Index
from solar.search.metadata import Metadata


@pytest.fixture
def copy(home: Home, tmp_path: Path) -> Path:
    """An index of our own, and its photos in `photos` beside it."""
    shutil.copytree(home / "photos", tmp_path / "photos")
    shutil.copytree(home / "model.solar", tmp_path / "model.solar")
    return tmp_path


@pytest.fixture
def writable(open_app: Open, copy: Path) -> TestClient:
    return open_app(index=copy / "model.solar", photos=copy / "photos", writable=True)


@pytest.fixture
def new(tmp_path: Path) -> bytes:
    file = tmp_path / "new.png"
    toy.landmark(77, 0, size=(160, 120)).save(file)
    return file.read_bytes()


def add(client: TestClient, *files: tuple[str, bytes]) -> dict[str, object]:
    """Add photos and wait until that is done."""
    answer = client.post("/api/v1/photos", files=[("photos", file) for file in files])
    assert answer.status_code == 202, answer.text
    address = f"/api/v1/jobs/{answer.json()['job']}"
    deadline = time.monotonic() + 60
    while (job := client.get(address).json())["state"] == "running":
        assert job["done"] <= job["total"]
        assert time.monotonic() < deadline
    return job


def test_added_photos_are_found_and_stay(writable: TestClient, copy: Path, new: bytes) -> None:
    identity = upload(writable, new)
    before = names(search(writable, identity))
    job = add(writable, ("house.png", new), ("bad.jpg", b"no photo"))
    assert (job["done"], job["total"], job["added"]) == (2, 2, [str(PHOTOS)])
    [failed] = job["failed"]
    assert failed["name"] == "bad.jpg"
    assert failed["error"].endswith(".")
    first = search(writable, identity)["hits"][0]
    assert (first["id"], first["name"] in before) == (str(PHOTOS), False)
    assert first["score"] == pytest.approx(1, abs=1e-4)
    stored = copy / "photos" / first["name"]
    assert stored.parent.name == "uploads"
    assert stored.read_bytes() == new
    assert writable.get(first["thumbnail"]).status_code == 200
    with Index.open(copy / "model.solar") as index:
        assert (len(index), index.check()) == (PHOTOS + 1, [])
        assert (index.photo(first["name"]).width) == 160


def test_names_of_visitors_name_no_file(writable: TestClient, copy: Path, new: bytes) -> None:
    files = {file: file.stat().st_mtime_ns for file in copy.rglob("*") if file.is_file()}
    job = add(writable, ("../../landmark-000/view-000.jpg", new), ("same.jpg", new))
    assert len(job["added"]) == 2
    photos = {file for file in (copy / "photos").rglob("*") if file.is_file()}
    assert len(photos) == PHOTOS + 2
    old = {file for file in files if "photos" in file.parts}
    assert all(file.stat().st_mtime_ns == files[file] for file in old)


def test_another_writer_is_waited_for(
    writable: TestClient, copy: Path, new: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Metadata(copy / "model.solar").writing()
    held.__enter__()
    index = writable.app.state.service.collection.index
    tried: list[int] = []
    original = index.add

    def attempt(*given: object) -> int:
        tried.append(1)
        if len(tried) == 2:
            held.__exit__(None, None, None)
        return original(*given)

    monkeypatch.setattr(index, "add", attempt)
    assert add(writable, ("house.png", new))["failed"] == []
    assert len(tried) == 2


def test_nothing_is_added_where_that_is_off(client: TestClient, new: bytes) -> None:
    answer = client.post("/api/v1/photos", files={"photos": new})
    assert answer.status_code == 403
    assert "--writable" in answer.json()["error"]


def test_large_files_and_jobs_of_nobody(open_app: Open, copy: Path, new: bytes) -> None:
    client = open_app(
        index=copy / "model.solar", photos=copy / "photos", writable=True, max_upload_bytes=9000
    )
    job = add(client, ("large.png", bytes(9001)))
    assert "too large" in job["failed"][0]["error"]
    assert client.get("/api/v1/jobs/none").status_code == 404


def test_a_folder_is_needed(open_app: Open, home: Home, tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="--photos"):
        open_app(writable=True, photos=tmp_path / "none")
