"""The table of engines, and that a new one is its module and a line."""

from pathlib import Path

import numpy as np
import pytest

from solar.errors import SolarError
from solar.index import Index
from solar.index.index import ENGINES, is_folder, report_place
from solar.web.serving import collection_name

MODULE = """
from dataclasses import replace

import numpy as np
from solar.storage.protocol import NoIndexError
from solar.storage.types import Hit

KEPT = {}


def begin(address, spec, roots, **options):
    KEPT[address] = engine = Memory(spec, roots)
    return engine


def open_index(address, **options):
    if address not in KEPT:
        raise NoIndexError(f"{address} does not exist.")
    return KEPT[address]


def index_name(address):
    return address.rpartition("/")[2]


class Memory:
    folder = None
    unfinished = False

    def __init__(self, spec, roots):
        self.spec, self.roots, self.rows = spec, roots, {}

    def __len__(self):
        return len(self.rows)

    @property
    def roots_seen(self):
        return self.roots

    def search(self, queries, k, where=()):
        scored = [
            [(float(query @ vector), path) for path, (_, vector) in self.rows.items()]
            for query in queries
        ]
        return [[Hit(path, score) for score, path in sorted(one)[::-1][:k]] for one in scored]

    def lookup(self, paths):
        return {path: self.rows[path] for path in paths if path in self.rows}

    def stamps(self):
        return {path: photo.stamp for path, (photo, _) in self.rows.items()}

    def skipped(self):
        return {}

    def amend(self, change):
        self.remove(change.removed)
        for old, new in change.renamed.items():
            photo, vector = self.rows.pop(old)
            self.rows[new] = replace(photo, path=new), vector
        self.roots = change.roots or self.roots

    def find(self, paths):
        return {path: photo for path, (photo, _) in self.lookup(paths).items()}

    def photos(self, rows=4096):
        yield [photo for photo, _ in self.rows.values()]

    def batches(self, rows=4096):
        yield [p for p, _ in self.rows.values()], np.stack([v for _, v in self.rows.values()])

    def add(self, batches):
        pairs = [pair for photos, vectors in batches for pair in zip(photos, vectors)]
        self.rows.update({photo.path: (photo, vector) for photo, vector in pairs})
        return len(pairs)

    def remove(self, paths):
        return len([self.rows.pop(path) for path in paths])

    def info(self):
        return {"engine": "memory", "photos": len(self), "bytes": 0}

    def check(self):
        return []

    def compact(self):
        pass

    def finish(self):
        pass

    def close(self):
        pass
"""


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory_engine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(ENGINES, "memory", "memory_engine")


def test_a_new_engine_is_a_module_and_a_line(memory: None, tmp_path: Path) -> None:
    names = list("abcd")
    with Index.create("memory://here/photos", np.eye(4), names) as index:
        assert [hit.path for hit in index.search("name:c", 1, include_self=True)] == ["c"]
    with Index.open("memory://here/photos") as index:
        assert (len(index), index.info()["engine"], index.check()) == (4, "memory", [])
        hits = index.search("name:b", 4, rerank="superglobal", include_self=True)
        assert hits[0].path == "b"
        assert index.remove("a") == 1
        with index.copy(tmp_path / "copy.solar") as copied:
            assert len(copied) == 3
    assert collection_name("memory://here/photos") == "photos"
    with pytest.raises(SolarError, match="does not exist"):
        Index.open("memory://here/others")


@pytest.mark.parametrize("address", ["photos.solar", "a/b", Path("c"), "s3://bucket/x", "milvus"])
def test_what_no_engine_knows_is_a_folder(address: str | Path) -> None:
    assert is_folder(address)


def test_every_index_has_a_report_of_its_own() -> None:
    names = {"trip.solar": "trip", "trip.2023": "trip.2023", "a.b.solar": "a.b", "photos": "photos"}
    for name, stem in names.items():
        assert report_place(f"/x/{name}", "groups") == Path(f"/x/{stem}.groups.json").absolute()


def test_milvus_is_an_engine() -> None:
    assert not is_folder("milvus://localhost:19530/photos")
