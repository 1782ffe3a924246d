from pathlib import Path

import numpy as np
import pytest
from support.drawn import relative_error
from support.golden2 import golden2
from support.unit_rows import unit_rows

from solar.errors import SolarError
from solar.search import Index, codes
from solar.search.web_codes import FRACTIONS, WebCodes, WhiteningEnsemble, is_web, learn_ensemble

GOLDEN = golden2("web")
SHARES = (100, 90, 80, 50, 30)
VECTORS = np.ascontiguousarray(GOLDEN["web_x"].T)


def published(*shares: int) -> WhiteningEnsemble:
    matrices = np.stack([GOLDEN[f"web_P_{share}"] for share in shares])
    return WhiteningEnsemble(GOLDEN["web_mean"][:, 0], matrices)


def test_whitenings_equal_the_published_ones_up_to_their_signs() -> None:
    exponents = GOLDEN["web_p"].mean(axis=0)
    queries, positives = GOLDEN["web_qidx"], GOLDEN["web_pidx"]
    order = exponents[queries] + exponents[positives]
    shares = [share / 100 for share in SHARES]
    found = learn_ensemble(VECTORS, queries, positives, order, shares)
    assert relative_error(found.mean[:, None], GOLDEN["web_mean"]) < 1e-5
    for matrix, share in zip(found.matrices, SHARES, strict=True):
        wanted = GOLDEN[f"web_P_{share}"]
        signs = np.sign((matrix * wanted).sum(axis=1, keepdims=True))
        assert relative_error(signs * matrix, wanted) < 1e-4


@pytest.mark.parametrize(("name", "shares"), [("2x", (100, 90)), ("4x", (100, 90, 80, 50))])
def test_codes_equal_the_published_ones_bit_for_bit(name: str, shares: tuple[int, ...]) -> None:
    bits = published(*shares).bits(VECTORS)
    assert np.array_equal(np.where(bits, 1, -1).T, GOLDEN[f"web_code_{name}"])
    assert len(shares) == {"2x": 2, "4x": len(FRACTIONS)}[name]


def test_scores_are_minus_the_bits_that_differ(tmp_path: Path) -> None:
    made = WebCodes(published(100, 90, 80))  # 3 · 12 bits do not fill whole bytes
    made.add(VECTORS)
    made.write(tmp_path / "codes")
    assert is_web(tmp_path / "codes")
    (tmp_path / "plain").touch()
    assert (tmp_path / "codes").stat().st_mode == (tmp_path / "plain").stat().st_mode
    for some in (made, WebCodes.read(tmp_path / "codes")):
        scores, rows = some.search(VECTORS[:5], 7)
        bits = published(100, 90, 80).bits(VECTORS)
        apart = (bits[:5, None] != bits).sum(axis=2)
        assert some.ntotal == len(VECTORS)
        assert np.array_equal(-scores, np.sort(apart, axis=1)[:, :7])
        assert np.array_equal(np.take_along_axis(apart, rows, 1), -scores)


def clustered(rows: int, dim: int) -> np.ndarray:
    """Vectors of places with eight photos each."""
    centres = unit_rows(0, rows // 8, dim).numpy().repeat(8, axis=0)
    found = centres + 0.5 / np.sqrt(dim) * np.random.default_rng(1).standard_normal(centres.shape)
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def test_an_index_finds_what_an_exact_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, "LEAST", 200)
    vectors = clustered(2048, 32)
    names = [f"{row}.jpg" for row in range(len(vectors))]
    with Index.create(tmp_path / "exact", vectors, names) as exact:
        wanted = exact.search_vectors(vectors[::50], 8)
    with Index.create(tmp_path / "web", vectors[:120], names[:120], compress="web") as index:
        assert index.info()["bytes_of_codes"] == 0  # too few for whitenings
        index.add(vectors[120:], names[120:])
        assert index.info()["bytes_of_codes"] > 2048 * 16
    with Index.open(tmp_path / "web") as index:
        found = index.search_vectors(vectors[::50], 8)
        kept = sum(
            len({hit.path for hit in a} & {hit.path for hit in b})
            for a, b in zip(wanted, found, strict=True)
        )
        assert kept >= 0.99 * 8 * len(wanted)
        index.remove([wanted[0][0].path])
        assert index.search_vectors(vectors[:1], 7)[0] == wanted[0][1:]
        index.compact()
        assert index.check() == []
    [file] = (tmp_path / "web").glob("sketch-*")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with Index.open(tmp_path / "web") as index, pytest.raises(SolarError, match="index compact"):
        index.search_vectors(vectors[:1], 1)
