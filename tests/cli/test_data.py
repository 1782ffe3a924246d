import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.archives import make_archive
from support.file_server import FileServer, serve
from support.running import solar

from solar.datasets.public.registry import HPATCHES_FILES

SEQUENCES = [f"i_{number}" for number in range(57)] + [f"v_{number}" for number in range(59)]


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A mirror with small patches; any other host is out of reach."""
    monkeypatch.delenv("SOLAR_OFFLINE")
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as running:
        monkeypatch.setenv("SOLAR_MIRRORS", running.base)
        members = {f"hpatches-release/{s}/{f}": b"png" for s in SEQUENCES for f in HPATCHES_FILES}
        running.add(
            "hpatches-release.zip", make_archive(tmp_path / "made.zip", members).read_bytes()
        )
        yield running


def data(*arguments: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
    return solar("data", *arguments, expect=expect)


def test_sizes_are_listed_with_a_digit_where_it_matters() -> None:
    listed = {line.split()[0]: line for line in data("list").stdout.splitlines() if line.strip()}
    assert "1.9 GB" in listed["roxford5k"]
    assert "501 GB" in listed["gldv2"]


def test_get_then_check(mirror: FileServer, tmp_path: Path) -> None:
    root = tmp_path / "data"
    done = data("get", "hpatches", "--root", root, "--ignore-space")
    assert done.stdout == ""
    assert "1,856 files unpacked." in done.stderr
    told = data("check", "hpatches", "--root", root)
    assert "ok  sequences: 116 of 116" in told.stdout
    assert f"hpatches is complete in {root / 'hpatches'}." in told.stdout


def test_check_of_an_incomplete_dataset_exits_with_1(mirror: FileServer, tmp_path: Path) -> None:
    data("get", "hpatches", "--root", tmp_path, "--ignore-space")
    (tmp_path / "hpatches" / "v_3" / "e1.png").unlink()
    told = data("check", "hpatches", "--root", tmp_path, expect=1)
    assert "--  sequences: 115 of 116 (missing: v_3/e1.png)" in told.stdout
    assert "--again" in told.stdout


def test_check_as_json(tmp_path: Path) -> None:
    told = json.loads(data("check", "roxford5k", "--root", tmp_path, "--json", expect=1).stdout)
    assert told == {
        "dataset": "roxford5k",
        "folder": str(tmp_path / "roxford5k"),
        "complete": False,
        "release": None,
        "items": [
            item("gnd_roxford5k.pkl", 0, 1),
            item("photos", 0, 5063),
        ],
    }


def item(what: str, found: int, expected: int) -> dict[str, object]:
    complete = found >= expected
    return {
        "what": what,
        "found": found,
        "expected": expected,
        "missing": [],
        "note": "",
        "complete": complete,
    }


def test_offline_is_one_sentence(tmp_path: Path) -> None:
    done = data("get", "hpatches", "--root", tmp_path, "--ignore-space", expect=2)
    assert done.stderr.splitlines()[-1].startswith("solar: Could not download hpatches-release.zip")
    assert "SOLAR_OFFLINE" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_name_is_one_sentence(tmp_path: Path) -> None:
    done = data("get", "oxford", "--root", tmp_path, expect=2)
    assert done.stderr.startswith("solar: There is no dataset 'oxford' (perhaps roxford5k?)")


def test_a_subset_is_checked_and_can_be_had_by_name(tmp_path: Path) -> None:
    told = data("check", "gldv2", "--root", tmp_path, "--only", "index", expect=1).stdout
    assert "--  photos of index.csv: 0 of 761,757" in told
    assert f'try "solar data get gldv2 --root {tmp_path} --only index"' in " ".join(told.split())
    done = data("get", "gldv2", "--root", tmp_path, "--only", "val", expect=2)
    assert "solar: gldv2 has no subset 'val': clean or train or" in " ".join(done.stderr.split())


def test_list_names_every_dataset_with_its_terms() -> None:
    told = data("list").stdout
    for name in ("roxford5k", "rparis6k", "revisitop1m", "gl18", "sfm120k", "hpatches"):
        assert name in told
    assert "terms of use" in told


def test_list_as_json() -> None:
    told = {entry["name"]: entry for entry in json.loads(data("list", "--json").stdout)}
    assert told["phototour"]["photos"] == 1_551_838
    assert told["rparis6k"]["archives"][0]["parts"][0]["name"] == "paris_1-v1.tgz"
