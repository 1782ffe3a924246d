"""The table of ways to re-rank, and all who read it."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from solar.cli import app
from solar.errors import SolarError
from solar.index import Index
from solar.ranking.expand import augment, expand_query
from solar.ranking.neighbours import exact_neighbours
from solar.ranking.rerank import METHODS, Reranker, chosen
from solar.ranking.superglobal import superglobal
from solar.storage.types import Hit

COUNT = 60
TOY = '''
def rerank(results):
    """The least similar of the best five first."""
    return results.led_by(results.best(5)[::-1])
'''


def unit(seed: int, rows: int = COUNT, dim: int = 16) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, dim)) + 0.3
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


VECTORS, QUERY = unit(0), unit(1, 1)[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "photos.solar"
    Index.create(folder, VECTORS, [f"{n}.jpg" for n in range(COUNT)]).close()
    return folder


@pytest.fixture(scope="module")
def index(folder: Path) -> Index:
    return Index.open(folder)


def paths(hits: list[Hit]) -> list[str]:
    return [hit.path for hit in hits]


def named(rows: np.ndarray) -> list[str]:
    return [f"{row}.jpg" for row in rows]


def ranked(query: np.ndarray, vectors: np.ndarray = VECTORS) -> np.ndarray:
    return np.argsort(-(vectors @ query), kind="stable")


@pytest.mark.parametrize("method", ["average", "alpha"])
def test_expansion_searches_again_with_a_better_query(index: Index, method: str) -> None:
    best = ranked(QUERY)[:64]
    better = expand_query(QUERY, VECTORS[best], VECTORS[best] @ QUERY, method=method)
    assert paths(index.search(QUERY, COUNT, rerank=method)) == named(ranked(better))


def test_superglobal_is_that_of_its_module(index: Index) -> None:
    rows = ranked(QUERY)
    scores = superglobal(QUERY, VECTORS[rows])
    order = np.argsort(-scores, kind="stable")
    rows, scores = rows[order], scores[order]
    hits = index.search(QUERY, COUNT, rerank="superglobal")
    assert paths(hits) == named(rows)
    np.testing.assert_allclose([hit.score for hit in hits], scores, rtol=1e-5)


def test_augmentation_compares_augmented_candidates(index: Index) -> None:
    rows = ranked(QUERY)
    candidates = VECTORS[rows]
    places, near = np.arange(COUNT), exact_neighbours(candidates)
    augmented = augment(places, near, candidates)
    assert paths(index.search(QUERY, COUNT, rerank="dba")) == named(rows[ranked(QUERY, augmented)])


def test_methods_follow_each_other_in_the_order_given(index: Index) -> None:
    best = ranked(QUERY)[:64]
    better = expand_query(QUERY, VECTORS[best], VECTORS[best] @ QUERY, method="alpha")
    rows = ranked(better)
    rows = rows[np.argsort(-superglobal(better, VECTORS[rows]), kind="stable")]
    assert paths(index.search(QUERY, COUNT, rerank="alpha, superglobal")) == named(rows)
    # The other way round, the expanded query is searched for plainly.
    hits = index.search(QUERY, 5, rerank=["superglobal", "average"])
    assert hits == index.search(hits_query(index), 5)


def hits_query(index: Index) -> np.ndarray:
    """The query expanded with the nine that SuperGlobal puts first."""
    best = [int(path[:-4]) for path in paths(index.search(QUERY, 64, rerank="superglobal"))]
    return expand_query(QUERY, VECTORS[best], VECTORS[best] @ QUERY, method="average")


def test_what_a_method_does_not_look_at_follows_in_its_old_order(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solar.ranking.superglobal.TOP", 10)
    plain = paths(index.search(QUERY, 30))
    got = paths(index.search(QUERY, 30, rerank="superglobal"))
    assert sorted(got[:10]) == sorted(plain[:10])
    assert got[:10] != plain[:10]
    assert got[10:] == plain[10:]


def test_conditions_hold_before_and_after(index: Index) -> None:
    for method in ("alpha", "dba", "diffusion", "superglobal"):
        hits = index.search(QUERY, 40, rerank=method, where="path=1")
        assert sorted(paths(hits)) == sorted(f"{n}.jpg" for n in (1, *range(10, 20)))


@pytest.mark.parametrize("names", ["sideways", "alpha,sideways", ["alpha", "sideways"], ""])
def test_an_unknown_name_is_one_sentence_with_all_names(
    index: Index, names: str | list[str]
) -> None:
    wrong = "sideways" if names else ""
    complaint = (
        f"^There is no re-ranking method '{wrong}': choose from average, alpha, .*verify\\.$"
    )
    with pytest.raises(SolarError, match=complaint):
        index.search(QUERY, rerank=names)


def test_a_name_counts_once() -> None:
    assert chosen("alpha, verify,alpha") == ["alpha", "verify"]
    assert chosen(["verify", "dba"]) == ["verify", "dba"]
    assert chosen(None) == []


# A new method: one file, and one line in the table


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_rerank.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    line = Reranker("Toy", "Turn the best five around.", "vectors", "toy_rerank")
    monkeypatch.setitem(METHODS, "toy", line)


def test_a_new_method_is_searched_with(index: Index, toy: None) -> None:
    plain = index.search(QUERY, 8)
    assert index.search(QUERY, 8, rerank="toy") == [*plain[:5][::-1], *plain[5:]]
    with pytest.raises(SolarError, match="verify, toy"):
        index.search(QUERY, rerank="sideways")


def test_all_methods_are_in_the_help_of_the_command() -> None:
    told = CliRunner().invoke(app, ["search", "--help"], env={"COLUMNS": "400"}).output
    help_text = " ".join(told.replace("│", " ").split())
    assert all(f"{name}: {method.summary}" in help_text for name, method in METHODS.items())


def test_a_new_method_is_offered_by_the_command(folder: Path, toy: None) -> None:
    arguments = ["search", str(folder), "name:3.jpg", "-k", "5", "--json"]
    plain, turned = (
        [hit["path"] for hit in json.loads(CliRunner().invoke(app, given).stdout)]
        for given in (arguments, [*arguments, "--rerank", "toy"])
    )
    assert turned == plain[::-1]


def test_a_new_method_is_completed_by_the_shell(toy: None) -> None:
    from solar.cli.completion import rerank_methods

    assert rerank_methods("alpha,to") == [("alpha,toy", "Turn the best five around.")]


def test_a_new_method_is_in_the_schema_of_the_web_app(toy: None) -> None:
    pytest.importorskip("pydantic", reason='pip install "solar-retrieval[web]"')
    from solar.web.api.schemas import SearchRequest

    names, none = SearchRequest.model_json_schema()["properties"]["rerank"]["anyOf"]
    assert names["items"]["enum"][-2:] == ["verify", "toy"]
    assert none == {"type": "null"}
    assert SearchRequest(photo="1", rerank=["toy"]).rerank == ["toy"]


def test_every_method_can_be_imported_and_says_what_it_does() -> None:
    for name, method in METHODS.items():
        assert name.isidentifier()
        assert method.summary.endswith(".")
        assert callable(getattr(__import__(method.module, fromlist=["_"]), method.function))
