"""Networks as graphs for OpenVINO: equal to torch, kept, and used without torch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from solar.demo import toy
from solar.describe.cpu import graph, libraries
from solar.describe.cpu.trial import Verdict
from solar.describe.network import Network, kept_facts, network_of
from solar.describe.pipeline import QueryEncoder
from solar.describe.runtime import describer
from solar.describe.settings import Settings
from solar.errors import SolarError
from solar.images import Photos
from solar.index import Index
from solar.index.build import build
from solar.models import RetrievalNet, save

pytest.importorskip("openvino", reason="no wheel of OpenVINO for this machine")

SCALES = (1.0, 1.5)


def _pixels() -> list[np.ndarray]:
    sizes = ((96, 64), (64, 96), (80, 80))
    return [np.asarray(toy.landmark(1, view, size=size)) for view, size in enumerate(sizes)]


def _torch(net: RetrievalNet) -> np.ndarray:
    return np.concatenate([net.describe(photo, size=200, scales=SCALES) for photo in _pixels()])


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize("name", graph.GRAPHS)
def test_a_graph_gives_torchs_embeddings_of_photos_of_any_size(
    tiny: RetrievalNet, name: str, many: bool
) -> None:
    if name == "openvino-bf16" and not libraries.has_bf16():
        pytest.skip("this processor has no bf16")
    opened, reason = graph.open_graph(network_of(tiny), SCALES, [name], make=True, many=many)
    assert opened is not None, reason
    assert opened.backend == name
    cosines = (opened(_pixels()) * _torch(tiny)).sum(axis=1)
    assert cosines.min() >= graph.COSINE[name]


def test_a_network_with_a_graph_is_not_loaded_to_describe(tiny: RetrievalNet) -> None:
    known = network_of(tiny)
    asked = Settings.of(known, backend="openvino", scales=SCALES, size=200)
    describer(known, asked)
    facts = kept_facts(known.fingerprint, "cpu")
    assert facts == known.facts

    def load() -> RetrievalNet:
        raise AssertionError("the network was loaded")

    network = Network(load, "somewhere", known.fingerprint, known.facts)
    encoder = QueryEncoder(network, asked.recorded({}))
    assert encoder.settings.scales == SCALES
    cosines = (np.stack([encoder(photo) for photo in _pixels()]) * _torch(tiny)).sum(axis=1)
    assert cosines.min() >= graph.COSINE["openvino-bf16"]


def test_few_photos_or_a_network_in_memory_make_no_graph(
    tiny: RetrievalNet, own_cache: Path, tmp_path: Path
) -> None:
    file = save(tiny, tmp_path / "tiny.safetensors")
    photos = Photos(tuple("ab"), (tmp_path / "a", tmp_path / "b"))
    for model in (tiny, str(file)):
        network = network_of(model, device="cpu")
        assert describer(network, Settings.of(network), photos).backend == "torch"
    assert not list(own_cache.glob("graphs/*.xml"))


def test_many_photos_make_a_graph_that_the_next_run_finds(
    tiny: RetrievalNet, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save(tiny, tmp_path / "tiny.safetensors")
    monkeypatch.setattr("solar.describe.runtime.MANY", 2)
    photos = Photos(tuple("ab"), (tmp_path / "a", tmp_path / "b"))
    network = network_of(str(file), device="cpu")
    made = describer(network, Settings.of(network), photos)
    assert made.backend in graph.GRAPHS
    assert describer(network, Settings.of(network)).backend == made.backend


def test_a_runtime_that_differs_is_not_used(
    tiny: RetrievalNet, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "tried_out", lambda *_: Verdict(False, reason="it is far off"))
    network = network_of(tiny)
    with pytest.warns(UserWarning, match=r"openvino .*torch.*far off"):
        used = describer(network, Settings.of(network, backend="openvino"))
    assert used.backend == "torch"


def test_a_processor_without_bf16_computes_in_float32(
    tiny: RetrievalNet, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "processor", lambda: "model name: old\nflags: sse2 avx2")
    opened, _ = graph.open_graph(network_of(tiny), SCALES, graph.GRAPHS, make=True, many=False)
    assert opened is not None
    assert opened.backend == "openvino"


def test_a_network_that_pools_by_regions_stays_with_torch(
    tiny: RetrievalNet, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "can_be_graph", lambda network: "it pools by regions")
    opened, reason = graph.open_graph(network_of(tiny), SCALES, graph.GRAPHS, make=True, many=False)
    assert (opened, reason) == (None, "it pools by regions")


def test_embeddings_of_other_runtimes_are_compared_but_not_those_of_int8(
    tiny: RetrievalNet,
) -> None:
    from solar.describe.settings import comparable

    made = {
        name: comparable(Settings.of(tiny, backend=name).recorded({}))
        for name in ("torch", "openvino-bf16", "openvino-int8")
    }
    assert made["torch"] == made["openvino-bf16"] != made["openvino-int8"]


def test_searching_and_adding_import_no_torch(
    tiny: RetrievalNet, photos: Path, own_cache: Path, tmp_path: Path
) -> None:
    file = save(tiny, tmp_path / "tiny.safetensors")
    place = tmp_path / "photos.solar"
    build(photos, place, model=file, backend="openvino", device="cpu").close()
    (tmp_path / "new").mkdir()
    query = tmp_path / "new" / "new.jpg"
    toy.landmark(9, 1, size=(90, 60)).save(query)
    code = (
        "import sys\nfrom solar.cli import main\ntry:\n    main()\nfinally:\n"
        "    print('torch' in sys.modules, 'openvino' in sys.modules, file=sys.stderr)"
    )
    for command in (
        ["search", str(place), str(query), "-k", "3"],
        ["index", "add", str(place), str(tmp_path / "new")],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines()[-1] == "False True"
    with Index.open(place) as index:
        assert any(photo.path.endswith("new.jpg") for photo in index.mapped()[0])


def test_a_graph_was_asked_for_where_it_is_not_installed(
    tiny: RetrievalNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solar.models.export.importlib.util.find_spec", lambda _: None)
    with pytest.raises(SolarError, match="openvino"):
        describer(tiny, Settings.of(tiny, backend="openvino-bf16"))
