import gc
import io
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image

from solar.asmk.index import AsmkIndex
from solar.demo import toy
from solar.errors import SolarError
from solar.images import Roots, find_photos
from solar.index import Index, ingest
from solar.models import PatchNet, RetrievalConfig, RetrievalNet, fingerprint, save
from solar.ranking.query import Part
from solar.storage.types import Amendment, DescriptorSpec, Hit


@pytest.fixture(scope="module")
def model() -> RetrievalNet:
    torch.manual_seed(0)
    return RetrievalNet(RetrievalConfig("resnet18", size=96, scales=(1.0,))).eval()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for identity in range(3):
        for view in range(2):
            toy.landmark(identity, view).save(folder / f"{identity}-{view}.png")
    return folder


@pytest.fixture(scope="module")
def index(model: RetrievalNet, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Index:
    files = sorted(photos.iterdir())
    home = tmp_path_factory.mktemp("index")
    save(model, home / "model.safetensors")
    spec = DescriptorSpec(
        model.dim,
        str(home / "model.safetensors"),
        fingerprint(model),
        {"size": 96, "scales": [1.0]},
    )
    vectors, names, roots = model.describe(files), [f.name for f in files], Roots.at(photos)
    return Index.create(home / "photos.solar", vectors, names, spec=spec, roots=roots)


def test_a_closed_index_lets_go_of_its_network(index: Index) -> None:
    other = Index.open(index.place)
    network = weakref.ref(other.model)
    assert other.encoder.net is network()
    other.close()
    gc.collect()
    assert network() is None


def best(hits: list[Hit]) -> str:
    assert hits[0].score == pytest.approx(1, abs=1e-5)
    return hits[0].path


def test_a_query_may_be_a_file_bytes_an_image_or_an_array(index: Index, photos: Path) -> None:
    file = photos / "1-0.png"
    image = Image.open(file).convert("RGB")
    for query in (str(file), file, file.read_bytes(), image, np.asarray(image)):
        assert best(index.search(query, 3, include_self=True)) == "1-0.png"


def test_a_query_may_be_an_indexed_photo_or_a_vector(
    index: Index, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert best(index.search("2-1.png", include_self=True)) == "2-1.png"
    assert best(index.search("name:2-1.png", include_self=True)) == "2-1.png"
    assert best(index.search(index.describe("2-1.png"))) == "2-1.png"
    # A file wins over an indexed photo of the same name, unless told otherwise.
    monkeypatch.chdir(photos.parent)
    (photos.parent / "2-1.png").write_bytes((photos / "0-0.png").read_bytes())
    assert best(index.search("2-1.png")) == "0-0.png"
    assert best(index.search("name:2-1.png", include_self=True)) == "2-1.png"


def test_an_indexed_query_is_left_out_of_its_own_results(index: Index, photos: Path) -> None:
    every = index.search("1-0.png", 6, rerank=None, include_self=True)
    for query in (str(photos / "1-0.png"), photos / "1-0.png", "1-0.png", "name:1-0.png"):
        hits = index.search(query, 6, rerank=None)
        assert [hit.path for hit in hits] == [hit.path for hit in every[1:]]
        assert [len(index.search(query, k)) for k in (1, 5)] == [1, 5]
        assert index.search_many([query], 6) == [hits]
    # Bytes and vectors may be anybody's.
    assert best(index.search((photos / "1-0.png").read_bytes())) == "1-0.png"


def test_several_queries_are_averaged(index: Index, model: RetrievalNet, photos: Path) -> None:
    a, b = model.describe([photos / "0-0.png", photos / "1-0.png"])
    mean = (a + b) / np.linalg.norm(a + b)
    expected = index.search(mean)
    for query in ([photos / "0-0.png", photos / "1-0.png"], ["0-0.png", b]):
        ours = index.search_mean(query, rerank=None, include_self=True)
        assert [hit.path for hit in ours] == [hit.path for hit in expected]
        np.testing.assert_allclose([h.score for h in ours], [h.score for h in expected], atol=1e-6)


def test_each_of_several_photos_has_its_own_box(index: Index, photos: Path) -> None:
    first, second = (10, 20, 200, 180), (40, 30, 150, 140)
    a = index.describe(photos / "0-0.png", box=first)
    b = index.describe(photos / "1-0.png", box=second)
    c = index.describe("2-0.png")
    parts = [Part(photos / "0-0.png", first), Part((photos / "1-0.png").open("rb"), second)]
    ours = index.search_mean([*parts, "2-0.png"], 6, include_self=True, rerank=None)
    expected = index.search((a + b + c) / np.linalg.norm(a + b + c), 6, rerank=None)
    assert [hit.path for hit in ours] == [hit.path for hit in expected]
    np.testing.assert_allclose([h.score for h in ours], [h.score for h in expected], atol=1e-6)
    left = {hit.path for hit in index.search_mean([parts[0], Part("2-0.png")], 6)}
    assert left == {"0-1.png", "1-0.png", "1-1.png", "2-1.png"}
    with pytest.raises(SolarError, match="file"):
        index.search_mean([parts[0], Part("2-0.png", second)])


def test_a_box_describes_the_part_of_the_photo(
    index: Index, model: RetrievalNet, photos: Path
) -> None:
    file, box = photos / "0-0.png", (10, 20, 200, 180)
    # The index runs a fused copy of the network: to rounding, the same.
    expected = model.describe(file, box=box)[0]
    np.testing.assert_allclose(index.describe(file, box=box), expected, atol=1e-6)


def test_queries_are_described_with_the_settings_of_the_index(
    model: RetrievalNet, photos: Path, tmp_path: Path
) -> None:
    spec = DescriptorSpec(model.dim, "", fingerprint(model), {"size": 64, "scales": [1.0, 0.5]})
    small = model.describe(photos / "0-0.png", size=64, scales=(1.0, 0.5))
    index = Index.create(tmp_path / "i.solar", small, ["a"], spec=spec, model=model)
    np.testing.assert_allclose(index.describe(photos / "0-0.png"), small[0], atol=1e-6)


def test_vectors_and_paths_are_those_that_were_added(tmp_path: Path) -> None:
    vectors = np.eye(8, dtype=np.float32)
    with Index.create(tmp_path / "i.solar", vectors[:4], list("abcd")) as index:
        index.add(vectors[4:], list("efgh"))
        index.remove(["b", "f"])
        assert index.paths == list("acdegh")
        assert np.array_equal(np.asarray(index.vectors), vectors[[0, 2, 3, 4, 6, 7]])
        assert np.array_equal(index.vectors[[5, 0]], vectors[[7, 0]])
        assert [photo.path for photo in index.mapped()[0]] == index.paths


def test_settings_that_differ_are_refused(tmp_path: Path) -> None:
    spec = DescriptorSpec(4, "m", "h", {"size": 8})
    index = Index.create(tmp_path / "i.solar", np.eye(4)[:1], ["a"], spec=spec)
    index.refuse_other(spec)
    for name, other in (
        ("settings", DescriptorSpec(4, "m", "h", {"size": 9})),
        ("model", DescriptorSpec(4, "n", "other", {"size": 8})),
    ):
        with pytest.raises(SolarError, match=name):
            index.refuse_other(other)


def test_vectors_of_another_device_or_decoder_or_of_parts_of_photos_are_taken(
    tmp_path: Path,
) -> None:
    there = {"size": 9, "device": "cuda", "decoder": "device", "boxes": {}}
    spec = DescriptorSpec(4, "m", "h", there)
    index = Index.create(tmp_path / "i.solar", np.eye(4)[:1], ["b"], spec=spec)
    settings = {"size": 9, "device": "cpu", "boxes": {"a": [0, 0, 2, 2]}}
    index.refuse_other(DescriptorSpec(4, "m", "h", settings))


@pytest.mark.parametrize("options", [{}, {"rerank": "diffusion"}, {"rerank": "alpha"}])
@pytest.mark.parametrize("k", [0, -1])
def test_a_search_for_no_photo_is_refused(index: Index, options: Any, k: int) -> None:
    with pytest.raises(SolarError, match=rf"k .*{k}"):
        index.search("0-0.png", k, **options)


@pytest.mark.parametrize("method", ["average", "alpha", "dba", "diffusion", "superglobal"])
def test_every_method_of_vectors_ranks_in_its_own_way(index: Index, method: str) -> None:
    hits = index.search("0-0.png", 4, rerank=method)
    assert len(hits) == 4
    assert hits != index.search("0-0.png", 4, rerank=None)


# Mistakes


def test_another_model_is_refused(index: Index, photos: Path) -> None:
    torch.manual_seed(1)
    other = RetrievalNet(RetrievalConfig("resnet18", size=96, scales=(1.0,))).eval()
    wrong = Index(index.engine, other)
    with pytest.raises(SolarError, match="model"):
        wrong.search(photos / "0-0.png")
    # No model is needed for this.
    assert best(wrong.search("0-0.png", include_self=True)) == "0-0.png"


def test_a_patch_model_is_refused(index: Index, photos: Path, tmp_path: Path) -> None:
    save(PatchNet(), tmp_path / "patch.safetensors")
    wrong = Index(index.engine, str(tmp_path / "patch.safetensors"))
    with pytest.raises(SolarError, match="patches"):
        wrong.search(photos / "0-0.png")


def test_an_index_of_plain_vectors_asks_for_a_model(photos: Path, tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i.solar", np.eye(4), list("abcd"))
    with pytest.raises(SolarError, match="model"):
        index.search(photos / "0-0.png")


def test_the_model_of_an_index_that_has_moved_is_asked_for(photos: Path, tmp_path: Path) -> None:
    spec = DescriptorSpec(4, str(tmp_path / "mine.safetensors"), "hash")
    index = Index.create(tmp_path / "i.solar", np.eye(4), list("abcd"), spec=spec)
    local = AsmkIndex(cast("Any", SimpleNamespace(spec=spec, kernel=None)))
    sentence = r"model of this index, .*mine.safetensors, is no longer there: .* with `model=`"
    with pytest.raises(SolarError, match=sentence):
        index.search(photos / "0-0.png")
    with pytest.raises(SolarError, match=sentence):
        _ = local.local


@pytest.mark.parametrize("query", ["none.png", "name:none.png"])
def test_a_query_that_is_nowhere_is_one_sentence(index: Index, query: str) -> None:
    with pytest.raises(SolarError, match=r"none\.png"):
        index.search(query)


def test_queries_that_make_no_sense_are_refused(index: Index, photos: Path) -> None:
    with pytest.raises(SolarError, match="one photo"):
        index.search_mean([])
    with pytest.raises(SolarError, match=r"search_many.*search_mean"):
        index.search(["0-0.png", "1-0.png"])
    with pytest.raises(SolarError, match="k "):
        index.search("0-0.png", 0)
    with pytest.raises(SolarError, match="box"):
        index.search("0-0.png", box=(0, 0, 5, 5))
    with pytest.raises(SolarError, match="box"):
        index.search_mean([photos / "0-0.png", photos / "0-1.png"], box=(0, 0, 5, 5))
    with pytest.raises(SolarError, match="not finite"):
        index.search(np.full(index.spec.dim, np.nan, np.float32))
    with pytest.raises(SolarError, match="not a photo"):
        index.search(io.BytesIO(b"x").getvalue())


def test_vectors_without_a_name_each_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"4 .*2 "):
        Index.create(tmp_path / "i.solar", np.eye(4), ["a", "b"])


def test_importing_the_index_does_not_import_the_network() -> None:
    import subprocess
    import sys

    code = (
        "import sys, solar; solar.Index; sys.exit('torch' in sys.modules or 'faiss' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_model_of_the_hub_is_fetched_for_nobody_but_who_names_it(
    index: Index, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index may be a stranger's: what it names is loaded only if it was fetched before."""
    from huggingface_hub import constants

    def refuse(*_: object) -> None:
        raise AssertionError("nobody is to be asked")

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("socket.socket.connect", refuse)
    network, loaded = index.model, list[object]()
    monkeypatch.setattr(
        "solar.models.retrieval_model", lambda name, **_: loaded.append(name) or network
    )
    spec = DescriptorSpec(index.spec.dim, "hf://org/name", index.spec.fingerprint)
    vectors = np.eye(3, index.spec.dim, dtype=np.float32)
    with Index.create(tmp_path / "sent.solar", vectors, ["a", "b", "c"], spec=spec) as sent:
        with pytest.raises(SolarError, match="hf://org/name"):
            sent.search(photos / "1-0.png")
        new = find_photos(photos)
        with pytest.raises(SolarError, match="hf://org/name"):
            ingest.apply(sent, new, ingest.plan(sent, new, {}))
        assert len(sent) == 3
        local = AsmkIndex(cast("Any", SimpleNamespace(spec=spec, kernel=None)))
        with pytest.raises(SolarError, match="hf://org/name"):
            _ = local.local
        assert loaded == []
        assert sent.search(vectors[1], k=1)[0].path == "b"  # no model is needed
        fetched = tmp_path / "hub" / "models--org--name"
        (fetched / "refs").mkdir(parents=True)
        (fetched / "refs" / "main").write_text("abc")
        (fetched / "snapshots" / "abc").mkdir(parents=True)
        (fetched / "snapshots" / "abc" / "config.json").write_text("{}")
        sent.search(photos / "1-0.png")
    with Index.open(tmp_path / "sent.solar", model="hf:org/other") as sent:
        sent.search(photos / "1-0.png")
    assert loaded == ["hf://org/name", "hf:org/other"]


def test_hits_are_where_the_photos_went_since(tmp_path: Path) -> None:
    """Roots are kept between searches; another opener may change them."""
    vectors = np.eye(3, 8, dtype=np.float32)
    place, names = tmp_path / "moved.solar", ["a/x.jpg", "../y.jpg", "z.jpg"]
    with Index.create(place, vectors, names, roots=Roots.at(tmp_path / "old")) as reader:
        assert [reader.search(row, k=1)[0].absolute for row in vectors] == [
            str(tmp_path / "old/a/x.jpg"),
            None,  # outside
            str(tmp_path / "old/z.jpg"),
        ]
        with Index.open(place) as writer:
            writer.engine.amend(Amendment(roots=Roots.at(tmp_path / "new.txt")))
        found = reader.search_vectors(vectors, k=1)
    assert [hits[0].absolute for hits in found] == [
        str(tmp_path / "a/x.jpg"),  # a list's folder, and one may lead out of it
        str(tmp_path.parent / "y.jpg"),
        str(tmp_path / "z.jpg"),
    ]
