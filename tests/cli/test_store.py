import json
from pathlib import Path

import numpy as np
import pytest

from solar.cli import app
from solar.describe.store import Store
from solar.images import Photos, Roots


@pytest.fixture
def store(tmp_path: Path) -> Path:
    photos = Photos(("a.jpg", "b.jpg"), (), roots=Roots.at(tmp_path))
    facts = {"model": "solar-r18", "fingerprint": "abc", "settings": {"size": 512}, "dim": 4}
    made = Store.create(tmp_path / "photos.store", photos, **facts)
    made.write_shard(0, np.eye(4)[:1], ["a.jpg"], [(9, 9)], {"b.jpg": "torn"})
    return made.path


def run(*arguments: object) -> object:
    return app(["store", *map(str, arguments)], standalone_mode=False)


def test_info_tells_what_a_store_holds(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("info", store, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["photos"] == told["failed"] == 1
    assert told["finished"]
    assert told["roots"] == [str(tmp_path)]
    run("info", store)
    assert "solar-r18" in capsys.readouterr().out


def test_check_finds_a_wrong_byte(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("check", store)
    assert "1 embeddings, no errors found." in capsys.readouterr().err
    [vectors] = store.glob("*.npy")
    content = bytearray(vectors.read_bytes())
    content[-1] ^= 1
    vectors.write_bytes(content)
    assert run("check", store) == 1
    assert "delete it, and run the command that made it again." in capsys.readouterr().err
