"""The index commands on a Milvus address, as a user runs them."""

import json
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.running import command, environment

from solar.index import Index
from solar.storage.types import Photo


def solar(*arguments: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        env=environment(COLUMNS="200"),
        timeout=120,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    assert done.stderr.count("\n") <= 1, done.stderr
    return done


@pytest.fixture
def embedded(tmp_path: Path) -> Path:
    photos = [Photo(f"{n}.jpg", 30, 20, ("night",) * (n % 2), fields={"n": n}) for n in range(8)]
    Index.create(tmp_path / "photos.solar", np.eye(8), photos).close()
    return tmp_path / "photos.solar"


def test_an_index_moves_to_milvus(embedded: Path, tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason='pip install "solar-retrieval[milvus]"')
    address = f"milvus://{tmp_path}/photos.db"
    assert "8 photos" in solar("index", "copy", embedded, f"{address}?index=HNSW").stderr
    command = ("search", address, "3.jpg", "-k", 1, "--where", "tag=night", "--where", "n>=3")
    command = (*command, "--include-self")
    found = solar(*command, "--json").stdout
    unknown = (
        "absolute",
        "probability",
        "inliers",
        "same_scene",
        "threshold",
        "taken",
        "position",
        "camera",
    )
    known = {"path": "3.jpg", "score": 1.0, "tags": ["night"], "fields": {"n": 3}}
    assert json.loads(found) == [{**known, **dict.fromkeys(unknown)}]
    facts = json.loads(solar("index", "info", address, "--json").stdout)
    assert (facts["engine"], facts["photos"], facts["index"]) == ("milvus", 8, "HNSW")


def test_mistakes_are_one_sentence(embedded: Path, tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason='pip install "solar-retrieval[milvus]"')
    for address, sentence in (
        (f"milvus://{tmp_path}/photos.db", "does not exist"),
        ("milvus://127.0.0.1:1/photos?timeout=0.5", "No Milvus server answers at 127.0.0.1:1"),
    ):
        done = solar("search", address, "3.jpg", expect=2)
        assert sentence in done.stderr


def test_a_server_that_does_not_answer_is_told_before_any_photo_is_described(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pymilvus", reason='pip install "solar-retrieval[milvus]"')
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 40)).save(tmp_path / "photos" / "a.png")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"milvus://127.0.0.1:{free.getsockname()[1]}/photos?timeout=1"
    done = solar("index", "build", tmp_path / "photos", "-o", address, expect=2)
    assert "No Milvus server answers" in done.stderr


def test_compress_is_refused_for_a_collection(tmp_path: Path) -> None:
    arguments = ("-o", "milvus://127.0.0.1:1/photos", "--model", "solar-r18", "--compress", "pq")
    assert "?index=" in solar("index", "build", tmp_path, *arguments, expect=2).stderr
