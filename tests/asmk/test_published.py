"""ASMK*, as the published code computes it."""

import re

import numpy as np
import pytest
from support.drawn import relative_error
from support.golden2 import golden2

from solar.asmk.codebook import Codebook, Residuals
from solar.asmk.kernel import Postings, Signatures, aggregate, binarise, selectivity
from solar.errors import SolarError

GOLDEN = golden2("asmk")
CODEBOOK = Codebook(GOLDEN["rasmk_codebook"])
WORDS, DIM = CODEBOOK.words.shape
SIMILARITIES = [name for name in GOLDEN if name.startswith("asmk_star_sim_")]


def whole(image: int) -> np.ndarray:
    """The local descriptors of an image, which the file holds by region."""
    sizes = GOLDEN["rasmk_region_sizes"].sum(axis=1)
    first = int(sizes[:image].sum())
    return GOLDEN["rasmk_features"][first : first + int(sizes[image])]


def published_bits(signatures: Signatures) -> np.ndarray:
    """Signatures in the published order: bytes with the most significant bit first."""
    signs = np.unpackbits(signatures.bits.view(np.uint8), axis=1, bitorder="little")
    return np.packbits(signs[:, :DIM], axis=1)


def test_signatures_equal_the_published_ones_bit_for_bit() -> None:
    photo = aggregate(whole(0), CODEBOOK)
    assert photo.words.tolist() == GOLDEN["asmk_words_0"].tolist()
    query = aggregate(GOLDEN["rasmk_query"], CODEBOOK)
    assert query.words.tolist() == GOLDEN["asmk_query_words"].tolist()
    assert np.array_equal(published_bits(query), GOLDEN["asmk_query_bits"])


@pytest.mark.parametrize("name", SIMILARITIES)
def test_similarities_equal_the_published_ones(name: str) -> None:
    assign, alpha, threshold = re.fullmatch(
        r"asmk_star_sim_ma(\d+)_alpha([\d.]+)_tau([\d.]+)", name
    ).groups()
    assign = int(assign)
    photos = [aggregate(whole(image), CODEBOOK, assign) for image in range(len(GOLDEN[name]))]
    query = aggregate(GOLDEN["rasmk_query"], CODEBOOK, assign)
    # The published code compares whole bytes: what fills the last one up counts as agreement.
    table = selectivity(8 * -(-DIM // 8), float(alpha), float(threshold))
    postings = Postings.gather(photos, CODEBOOK.blocks)
    found = postings.scores(query, table)
    found = found / np.maximum(postings.norms() * np.sqrt(len(query)), 1)
    found = np.where(postings.counts > 0, found, -1)
    assert relative_error(found, GOLDEN[name]) < 1e-5


def test_a_word_whose_residuals_cancel_is_left_out() -> None:
    words = np.array([3, 7], np.int32)
    found = binarise(Residuals(words, np.array([[1e-7, 0, 0], [0, 2, -1]], np.float32)))
    assert found.words.tolist() == [7]
    assert found.bits.tolist() == [[0b010]]


def test_descriptors_of_another_length_are_refused() -> None:
    with pytest.raises(SolarError, match=f"descriptors of length {DIM}"):
        aggregate(np.zeros((3, DIM + 1), np.float32), CODEBOOK)


def test_agreement_equal_to_the_threshold_does_not_count() -> None:
    """Signatures of 8 bits that differ in 2 agree by exactly a half."""
    table = selectivity(8, threshold=0.5)
    assert table[:2].tolist() == pytest.approx([1, 0.421875])
    assert not table[2:].any()
