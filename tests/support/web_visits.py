"""What visitors of the web app do, for its tests."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from fastapi.testclient import TestClient

LANDMARKS, VIEWS, DISTRACTORS = 4, 3, 2
PHOTOS = LANDMARKS * VIEWS + DISTRACTORS

Home: TypeAlias = Path
Open: TypeAlias = Callable[..., TestClient]
Answer: TypeAlias = dict[str, Any]


def numbers(client: TestClient) -> dict[str, str]:
    """Ids of all photos by name."""
    page = client.get("/api/v1/photos", params={"limit": 200}).json()
    return {one["name"]: one["id"] for one in page["photos"]}


def upload(client: TestClient, data: bytes, name: str = "mine.jpg") -> str:
    answer = client.post("/api/v1/queries", files={"photo": (name, data)})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def search(client: TestClient, photo: str, **options: object) -> Answer:
    answer = client.post("/api/v1/search", json={"photo": photo, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(answer: Answer) -> list[str]:
    return [hit["name"] for hit in answer["hits"]]


def passes(client: TestClient) -> float:
    """How often the network ran."""
    lines = client.get("/metrics").text.splitlines()
    [count] = [line.split()[1] for line in lines if line.startswith("solar_batch_size_count")]
    return float(count)


def finished_job(client: TestClient, identity: str, home: str = "") -> Answer:
    """A job once it is done."""
    deadline = time.monotonic() + 60
    while (job := client.get(f"{home}/api/v1/jobs/{identity}").json())["state"] == "running":
        assert job["done"] <= job["total"]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return job
