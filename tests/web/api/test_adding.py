import errno
import io
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from PIL import Image
from pydantic import BaseModel
from support.nasty_folder import photo
from support.web_visits import PHOTOS, Home, Open, finished_job, names, search, upload

from solar.demo import toy
from solar.errors import SolarError
from solar.index import Index
from solar.index.build import build
from solar.index.sync import relocate, sync
from solar.storage.catalogue import Metadata
from solar.storage.folder_base import being_filled
from solar.web import WebSettings, create_app
from solar.web.api import adding
from solar.web.api.adding import file_name
from solar.web.api.schemas import Job


@pytest.fixture
def new(tmp_path: Path) -> bytes:
    file = tmp_path / "new.png"
    toy.landmark(77, 0, size=(160, 120)).save(file)
    return file.read_bytes()


ADDRESS = "http://127.0.0.1:8000"


def add(client: TestClient, *files: tuple[str, bytes]) -> dict[str, object]:
    """Add photos and wait until that is done."""
    answer = client.post("/api/v1/photos", files=[("photos", file) for file in files])
    assert answer.status_code == 202, answer.text
    return finished_job(client, answer.json()["job"])


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
    assert first["name"] == "uploads/house.png"
    stored = copy / "photos" / first["name"]
    assert stored.read_bytes() == new
    assert writable.get(first["thumbnail"]).status_code == 200
    with Index.open(copy / "model.solar") as index:
        assert (len(index), index.check()) == (PHOTOS + 1, [])
        assert (index.photo(first["name"]).width) == 160


def uploaded(copy: Path) -> set[str]:
    folder = copy / "photos" / "uploads"
    return {file.name for file in folder.iterdir()} if folder.exists() else set()


def name_of(client: TestClient, identity: str) -> str:
    return client.get(f"/api/v1/photos/{identity}").json()["name"]


def test_names_of_visitors_name_no_file(writable: TestClient, copy: Path, new: bytes) -> None:
    files = {file: file.stat().st_mtime_ns for file in copy.rglob("*") if file.is_file()}
    job = add(writable, ("../../landmark-000/view-000.jpg", new), ("..", photo(1)))
    assert len(job["added"]) == 2
    assert uploaded(copy) == {"view-000.png", "photo.jpg"}
    old = {file for file in files if "photos" in file.parts}
    assert all(file.stat().st_mtime_ns == files[file] for file in old)


def test_names_are_kept_and_other_photos_of_that_name_numbered(
    writable: TestClient, copy: Path
) -> None:
    for seed in range(3):
        job = add(writable, ("IMG_0001.JPG", photo(seed)))
        assert (len(job["added"]), job["known"], job["failed"]) == (1, [], [])
    assert uploaded(copy) == {"IMG_0001.JPG", "IMG_0001-2.JPG", "IMG_0001-3.JPG"}
    (copy / "photos" / "uploads" / "IMG_0001-2.JPG").unlink()
    [fourth] = add(writable, ("IMG_0001.JPG", photo(3)))["added"]
    # The second is still indexed: it is not this one.
    assert name_of(writable, fourth) == "uploads/IMG_0001-4.JPG"
    [again] = add(writable, ("IMG_0001.JPG", photo(1)))["added"]
    assert name_of(writable, again) == "uploads/IMG_0001-5.JPG"


def test_a_photo_that_is_there_is_not_stored_again(writable: TestClient, copy: Path) -> None:
    known = (copy / "photos" / "landmark-001" / "view-000.jpg").read_bytes()
    job = add(writable, ("a.jpg", known), ("b.jpg", photo(1)), ("c.jpg", photo(1)))
    twin, new, same = (*job["known"][:1], *job["added"][:1], *job["known"][1:])
    assert name_of(writable, twin) == "landmark-001/view-000.jpg"
    assert same == new
    assert job["added"] == [new, twin, new]
    assert (job["done"], job["failed"]) == (3, [])
    assert uploaded(copy) == {"b.jpg"}
    assert writable.get("/api/v1/info").json()["photos"] == PHOTOS + 1


def test_what_a_crash_left_is_taken_in_under_its_name(writable: TestClient, copy: Path) -> None:
    (copy / "photos" / "uploads").mkdir()
    (copy / "photos" / "uploads" / "a.jpg").write_bytes(photo(1))
    [identity] = add(writable, ("a.jpg", photo(1)))["added"]
    assert name_of(writable, identity) == "uploads/a.jpg"
    assert uploaded(copy) == {"a.jpg"}


def test_an_update_leaves_added_photos_as_they_are(writable: TestClient, copy: Path) -> None:
    assert add(writable, ("a.jpg", photo(1)))["failed"] == []
    with Index.open(copy / "model.solar") as index:
        relocate(index, copy / "photos")
        found = sync(index, dry_run=True)
        assert not found
        assert "uploads/a.jpg" not in found.touched


def test_one_bad_photo_never_costs_the_others(
    writable: TestClient, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def told(job: Job, name: str, value: Any) -> None:
        if name == "done":
            counts.append(value)
        BaseModel.__setattr__(job, name, value)

    monkeypatch.setattr(Job, "__setattr__", told)
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64)).save(buffer, "PPM")
    job = add(
        writable,
        ("thin.png", photo(9, "PNG", (3000, 5))),
        ("cut.jpg", photo(2)[:400]),
        ("good.jpg", photo(3)),
        ("drawn.ppm", buffer.getvalue()),
        ("empty.jpg", b""),
    )
    assert (job["done"], len(job["added"])) == (5, 1)
    assert counts == sorted(counts)
    assert counts[-1] == 5
    reasons = {one["name"]: one["error"] for one in job["failed"]}
    assert reasons.keys() == {"thin.png", "cut.jpg", "drawn.ppm", "empty.jpg"}
    assert all(reason.endswith(".") for reason in reasons.values())
    assert "PPM" in reasons["drawn.ppm"]
    assert uploaded(copy) == {"good.jpg"}


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("IMG 1.jpeg", "JPEG", "IMG 1.jpeg"),
        ("wrong.png", "JPEG", "wrong.jpg"),
        ("my.holiday", "PNG", "my.holiday.png"),
        (".hidden.jpg", "JPEG", "hidden.jpg"),
        ("C:\\photos\\a\tb\x1b[0m.jpg", "JPEG", "ab[0m.jpg"),
        ("..jpg", "JPEG", "jpg.jpg"),
        ("", "WEBP", "photo.webp"),
        ("é" * 100 + ".jpg", "JPEG", "é" * 50 + ".jpg"),
        ("<b>&.JPG", "JPEG", "<b>&.JPG"),
    ],
)
def test_names_of_files_are_plain(name: str, kind: str, expected: str) -> None:
    assert "".join(file_name(name, photo(1, kind))) == expected


def test_photos_go_below_the_first_root_that_can_be_written(
    open_app: Open, home: Home, tmp_path: Path
) -> None:
    for seed, folder in enumerate(("a", "b")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.jpg").write_bytes(photo(seed))
    sources = [tmp_path / "a", tmp_path / "b"]
    build(sources, tmp_path / "i.solar", model=home / "model.safetensors").close()
    shutil.rmtree(tmp_path / "a")
    client = open_app(index=tmp_path / "i.solar", writable=True)
    [identity] = add(client, ("mine.jpg", photo(7)))["added"]
    assert name_of(client, identity) == "b//uploads/mine.jpg"
    assert client.get(f"/api/v1/photos/{identity}/thumbnail").status_code == 200
    assert (tmp_path / "b" / "uploads" / "mine.jpg").read_bytes() == photo(7)


def test_another_writer_is_waited_for(writable: TestClient, copy: Path, new: bytes) -> None:
    held = Metadata(copy / "model.solar").writing()
    held.__enter__()
    threading.Timer(0.3, held.__exit__, (None, None, None)).start()
    assert add(writable, ("house.png", new))["failed"] == []


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
    with pytest.raises(SolarError, match="`photos=`"):
        open_app(writable=True, photos=tmp_path / "none")


def test_a_mistake_of_ours_fails_photos_and_no_job(
    writable: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(adding, "file_name", fail)
    [failed] = add(writable, ("a.jpg", photo(1)))["failed"]
    assert "secret" not in failed["error"]
    assert "log" in failed["error"]


def test_photos_that_a_locked_index_does_not_take_are_not_left_behind(
    writable: TestClient, copy: Path
) -> None:
    (copy / "photos" / "uploads").mkdir()
    (copy / "photos" / "uploads" / "b.jpg").write_bytes(photo(2))  # somebody else's
    with being_filled(copy / "model.solar"):
        job = add(writable, ("a.jpg", photo(1)), ("b.jpg", photo(2)))
    assert [one["name"] for one in job["failed"]] == ["a.jpg", "b.jpg"]
    assert all("Another run" in one["error"] for one in job["failed"])
    assert str(copy) not in job["failed"][0]["error"]
    assert uploaded(copy) == {"b.jpg"}


def test_a_full_disk_is_told(
    writable: TestClient, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(copy))

    monkeypatch.setattr("os.fsync", full)
    [failed] = add(writable, ("a.jpg", photo(1)))["failed"]
    assert "the disk is full" in failed["error"]
    assert str(copy) not in failed["error"]
    assert uploaded(copy) == set()


def test_photos_of_a_server_that_was_stopped_are_taken_in_by_an_update(
    home: Home, copy: Path
) -> None:
    settings = WebSettings(photos=copy / "photos", writable=True, rate=0.0)
    with Index.open(copy / "model.solar") as index:
        with TestClient(create_app(index, settings=settings), base_url=ADDRESS) as client:
            held, jobs = threading.Event(), client.app.state.service.jobs
            jobs.start(lambda *_: held.wait())  # another job, which the photos wait for
            sent = [("photos", (f"{seed}.jpg", photo(seed))) for seed in range(3)]
            client.post("/api/v1/photos", files=sent)
            threading.Timer(0.5, held.set).start()  # when the server has begun to stop
        assert len(index) == PHOTOS
        assert uploaded(copy) == {"0.jpg", "1.jpg", "2.jpg"}
        with TestClient(create_app(index, settings=settings), base_url=ADDRESS) as client:
            job = finished_job(client, client.post("/api/v1/sync").json()["job"])
            assert job["changes"]["new"] == 3
