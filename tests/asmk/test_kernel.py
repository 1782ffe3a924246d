from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.asmk_oracle import signs, similarity, unpacked

from solar.arrays import Floats
from solar.asmk import kernel as module
from solar.asmk.codebook import Codebook, sum_residuals
from solar.asmk.kernel import Postings, Signatures, aggregate, binarise, selectivity
from solar.errors import SolarError


def drawn(seed: int, photos: int, dim: int, words: int = 12) -> tuple[Codebook, list[np.ndarray]]:
    """A codebook, and photos of some descriptors each, which look alike."""
    chance = np.random.default_rng(seed)
    codebook = Codebook(chance.normal(size=(words, dim)).astype(np.float32))
    shared = chance.normal(size=(20, dim))
    counts = chance.integers(0, 15, photos)
    return codebook, [
        (shared[:n] + 0.5 * chance.normal(size=(n, dim))).astype(np.float32) for n in counts
    ]


def compare(left: Signatures, right: Signatures, table: Floats) -> float:
    """The similarity of two photos, by an inverted file of the second; 0 where one has no words."""
    one = Postings.gather([right], right.bits.shape[1])
    norms = float(np.sqrt(len(left) * len(right)))
    return float(one.scores(left, table)[0]) / max(norms, 1.0)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    dim=st.sampled_from([1, 8, 20, 64, 70, 128, 130]),
    assign=st.sampled_from([1, 3, 5, 99]),
    alpha=st.sampled_from([1.0, 2.5, 3.0]),
    threshold=st.sampled_from([-1.0, -0.2, 0.0, 0.3]),
)
def test_scores_are_those_of_the_definition(
    seed: int, dim: int, assign: int, alpha: float, threshold: float
) -> None:
    codebook, photos = drawn(seed, 6, dim)
    table = selectivity(dim, alpha, threshold)
    query, *others = photos
    asked = aggregate(query, codebook, assign)
    for other in others:
        found = compare(asked, aggregate(other, codebook), table)
        x, y = signs(query, codebook.words, assign), signs(other, codebook.words)
        wanted = similarity(x, y, alpha=alpha, threshold=threshold)
        assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("dim", [3, 64, 100, 128])
def test_signatures_are_the_signs_of_summed_residuals(dim: int) -> None:
    codebook, [photo, *_] = drawn(1, 3, dim)
    found = unpacked(aggregate(photo, codebook, 2), dim)
    wanted = signs(photo, codebook.words, 2)
    assert wanted
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[c], wanted[c]) for c in wanted)


def test_a_photo_without_features_has_no_words() -> None:
    codebook, _ = drawn(0, 1, 70)
    empty = aggregate(np.empty((0, 70), np.float32), codebook)
    assert (len(empty), empty.bits.shape) == (0, (0, 2))
    assert compare(empty, empty, selectivity(70)) == 0


def test_a_photo_is_like_itself() -> None:
    codebook, [photo, *_] = drawn(1, 3, 128)
    one = aggregate(photo, codebook)
    assert compare(one, one, selectivity(128)) == pytest.approx(1)


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_an_inverted_file_scores_all_photos_piece_by_piece(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    codebook, photos = drawn(5, 30, 128)
    signatures = [aggregate(photo, codebook) for photo in photos]
    postings = Postings.gather(signatures, codebook.blocks)
    query = aggregate(photos[0], codebook, 5)
    scores = postings.scores(query, selectivity(128))
    norms = postings.norms() * np.sqrt(len(query))
    wanted = [compare(query, one, selectivity(128)) for one in signatures]
    assert max(wanted) > 0.1
    np.testing.assert_allclose(scores / np.maximum(norms, 1), wanted, atol=1e-6)


def test_merging_leaves_out_what_is_not_kept() -> None:
    codebook, photos = drawn(9, 12, 70)
    signatures = [aggregate(photo, codebook) for photo in photos]
    parts = [Postings.gather(some, 2) for some in (signatures[:5], signatures[5:])]
    kept = np.arange(12) % 3 != 0
    merged = Postings.merged([(parts[0], kept[:5]), (parts[1], kept[5:])])
    wanted = Postings.gather([s for s, stays in zip(signatures, kept, strict=True) if stays], 2)
    for name in ("words", "starts", "photos", "bits", "counts"):
        assert np.array_equal(getattr(merged, name), getattr(wanted, name)), name


def test_a_file_is_mapped_as_it_was_written(tmp_path: Path) -> None:
    codebook, photos = drawn(3, 8, 100)
    postings = Postings.gather([aggregate(photo, codebook) for photo in photos], 2)
    with (tmp_path / "postings").open("wb") as file:
        postings.write(file)
    mapped = Postings.mapped(tmp_path / "postings")
    for name in ("words", "starts", "photos", "bits", "counts"):
        assert np.array_equal(getattr(mapped, name), getattr(postings, name)), name
    assert isinstance(mapped.bits, np.memmap)


def test_photos_without_any_feature_can_be_written(tmp_path: Path) -> None:
    none = Signatures(np.empty(0, np.int32), np.empty((0, 2), np.uint64))
    with (tmp_path / "postings").open("wb") as file:
        Postings.gather([none, none], 2).write(file)
    mapped = Postings.mapped(tmp_path / "postings")
    assert mapped.scores(none, selectivity(128)).tolist() == [0, 0]


def test_a_file_that_is_cut_short_is_damaged(tmp_path: Path) -> None:
    codebook, photos = drawn(3, 8, 100)
    path = tmp_path / "postings"
    with path.open("wb") as file:
        Postings.gather([aggregate(photo, codebook) for photo in photos], 2).write(file)
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:100], b"text", b""):
        path.write_bytes(content)
        with pytest.raises(SolarError, match="damaged"):
            Postings.mapped(path)


def test_bits_are_counted_alike_without_numpy_2(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = np.random.default_rng(0).integers(0, 2**64, (50, 2), np.uint64)
    wanted = [sum(int(number).bit_count() for number in row) for row in bits]
    assert module._ones(bits).tolist() == wanted
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert module._ones(bits).tolist() == wanted


def test_photos_quantised_together_are_as_each_alone() -> None:
    codebook, photos = drawn(7, 9, 70)
    photos[4] = photos[4][:0]
    for together in (photos, photos[4:5]):
        for found, photo in zip(sum_residuals(together, codebook), together, strict=True):
            own, alone = binarise(found), aggregate(photo, codebook)
            assert np.array_equal(own.words, alone.words)
            assert np.array_equal(own.bits, alone.bits)
