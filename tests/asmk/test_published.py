"""VLAD, ASMK, ASMK* and their regional forms, as the published code computes them."""

import re

import numpy as np
import pytest
from support.drawn import relative_error
from support.golden2 import golden2

from solar.asmk.codebook import Codebook, Residuals, combine_regions, sum_residuals, vlad
from solar.asmk.kernel import (
    Kernel,
    Postings,
    Signatures,
    aggregate,
    aggregate_regions,
    binarise,
    similarity,
)
from solar.errors import SolarError

GOLDEN = golden2("asmk")
CODEBOOK = Codebook(GOLDEN["rasmk_codebook"])
WORDS, DIM = CODEBOOK.words.shape
SIMILARITIES = [name for name in GOLDEN if "_sim_" in name]


def regions_of(image: int) -> list[np.ndarray]:
    """The local descriptors of each region of an image; some regions are empty."""
    sizes = GOLDEN["rasmk_region_sizes"]
    first = int(sizes[:image].sum())
    return np.split(GOLDEN["rasmk_features"][first:], np.cumsum(sizes[image]))[:-1]


def whole(image: int) -> np.ndarray:
    return np.concatenate(regions_of(image))


def published_bits(signatures: Signatures) -> np.ndarray:
    """Signatures in the published order: bytes with the most significant bit first."""
    signs = np.unpackbits(signatures.bits.view(np.uint8), axis=1, bitorder="little")
    return np.packbits(signs[:, :DIM], axis=1)


def test_vlad_equals_the_published_one() -> None:
    found = vlad(whole(0), CODEBOOK)
    assert relative_error(found.reshape(WORDS, DIM), GOLDEN["vlad_0"]) < 1e-5


def test_regional_vlad_equals_the_published_one() -> None:
    found = combine_regions([sum_residuals(one, CODEBOOK) for one in regions_of(0)])
    assert relative_error(found.dense(WORDS), GOLDEN["rvlad_0"]) < 1e-5


def test_words_and_their_directions_equal_the_published_ones() -> None:
    plain = sum_residuals(whole(0), CODEBOOK).unit_rows()
    regional = combine_regions([sum_residuals(r, CODEBOOK) for r in regions_of(0)]).unit_rows()
    for name, found in (("asmk", plain), ("rasmk", regional)):
        assert found.words.tolist() == GOLDEN[f"{name}_words_0"].tolist()
        assert relative_error(found.sums, GOLDEN[f"{name}_vector_0"]) < 1e-5


def test_signatures_equal_the_published_ones_bit_for_bit() -> None:
    regional = aggregate_regions(regions_of(0), CODEBOOK)
    assert regional.words.tolist() == GOLDEN["rasmk_words_0"].tolist()
    assert np.array_equal(published_bits(regional), GOLDEN["rasmk_bits_0"])
    query = aggregate(GOLDEN["rasmk_query"], CODEBOOK)
    assert query.words.tolist() == GOLDEN["asmk_query_words"].tolist()
    assert np.array_equal(published_bits(query), GOLDEN["asmk_query_bits"])


@pytest.mark.parametrize("name", SIMILARITIES)
def test_similarities_equal_the_published_ones(name: str) -> None:
    kind, star, assign, alpha, threshold = re.fullmatch(
        r"(r?asmk)(_star)?_sim_ma(\d+)_alpha([\d.]+)_tau([\d.]+)", name
    ).groups()
    regional, assign = kind == "rasmk", int(assign)
    kernel = Kernel(float(alpha), float(threshold), assign=assign, divided=not regional)
    query = sum_residuals(GOLDEN["rasmk_query"], CODEBOOK, assign)
    photos = []
    for image in range(len(GOLDEN[name])):
        regions = regions_of(image) if regional else [whole(image)]
        summed = [sum_residuals(region, CODEBOOK, assign) for region in regions]
        photos.append(combine_regions(summed) if regional else summed[0])
    if star:
        # The published code compares whole bytes: what fills the last one up counts as agreement.
        table = kernel.table(8 * -(-DIM // 8))
        postings = Postings.gather([binarise(one) for one in photos], CODEBOOK.blocks)
        found = postings.scores(binarise(query), table)
        if not regional:
            found = found / np.maximum(postings.norms() * np.sqrt(len(query.words)), 1)
        found = np.where(postings.counts > 0, found, -1)
    else:
        found = np.array([similarity(query, one, kernel) for one in photos])
    assert relative_error(found, GOLDEN[name]) < 1e-5


def test_no_words_on_either_side_is_minus_one() -> None:
    none = sum_residuals(np.empty((0, DIM), np.float32), CODEBOOK)
    some = sum_residuals(whole(0), CODEBOOK)
    assert similarity(none, some, Kernel()) == similarity(some, none, Kernel()) == -1


def test_a_word_whose_residuals_cancel_is_left_out() -> None:
    words = np.array([3, 7], np.int32)
    found = binarise(Residuals(words, np.array([[1e-7, 0, 0], [0, 2, -1]], np.float32)))
    assert found.words.tolist() == [7]
    assert found.bits.tolist() == [[0b010]]


def test_an_empty_region_adds_nothing_but_counts() -> None:
    regions = [whole(0), np.empty((0, DIM), np.float32)]
    found = combine_regions([sum_residuals(one, CODEBOOK) for one in regions])
    np.testing.assert_allclose(found.dense(WORDS).ravel(), vlad(whole(0), CODEBOOK) / 2, atol=1e-6)


def test_one_region_has_the_signatures_of_the_photo() -> None:
    regional, plain = aggregate_regions([whole(2)], CODEBOOK), aggregate(whole(2), CODEBOOK)
    assert np.array_equal(regional.words, plain.words)
    assert np.array_equal(regional.bits, plain.bits)
    empty = aggregate_regions([np.empty((0, DIM), np.float32)] * 2, CODEBOOK)
    assert len(empty) == 0


def test_descriptors_of_another_length_are_refused() -> None:
    with pytest.raises(SolarError, match=f"descriptors of length {DIM}"):
        vlad(np.zeros((3, DIM + 1), np.float32), CODEBOOK)


@pytest.mark.parametrize(("inclusive", "first"), [(False, 0.0), (True, 0.125)])
def test_the_threshold_can_include_itself(inclusive: bool, first: float) -> None:
    """Signatures of 8 bits that differ in 2 agree by exactly a half."""
    table = Kernel(threshold=0.5, inclusive=inclusive).table(8)
    assert table[:2].tolist() == pytest.approx([1, 0.421875])
    assert table[2] == first
    assert not table[3:].any()
