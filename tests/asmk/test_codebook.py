from pathlib import Path

import numpy as np
import pytest

from solar.asmk import codebook as module
from solar.asmk.codebook import Codebook, train_codebook
from solar.errors import SolarError

CHANCE = np.random.default_rng(0)


def blobs(count: int = 8, each: int = 40, dim: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Descriptors around a few centres that lie far apart, and the centres."""
    centres = 10 * CHANCE.normal(size=(count, dim)).astype(np.float32)
    noise = 0.1 * CHANCE.normal(size=(count * each, dim))
    return (np.repeat(centres, each, axis=0) + noise).astype(np.float32), centres


def test_words_are_centres_of_what_they_were_trained_on() -> None:
    descriptors, _ = blobs()
    words = train_codebook(descriptors, 8).words
    nearest = ((descriptors[:, None] - words) ** 2).sum(axis=2).argmin(axis=1)
    for word in range(8):
        np.testing.assert_allclose(
            words[word], descriptors[nearest == word].mean(axis=0), atol=1e-4
        )


def test_the_same_seed_gives_the_same_words() -> None:
    descriptors = CHANCE.normal(size=(600, 16)).astype(np.float32)
    first, second, other = (train_codebook(descriptors, 20, seed=s).words for s in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_as_many_words_as_descriptors_allow() -> None:
    descriptors = CHANCE.normal(size=(163, 4)).astype(np.float32)
    assert train_codebook(descriptors).words.shape == (10, 4)


def test_too_few_descriptors() -> None:
    with pytest.raises(SolarError, match="5 local descriptors are too few for 6 visual words"):
        train_codebook(np.zeros((5, 4), np.float32), 6)
    with pytest.raises(SolarError, match="few"):
        train_codebook(np.zeros((5, 4), np.float32))


def test_nearest_words_in_order() -> None:
    words, points = CHANCE.normal(size=(2, 50, 5)).astype(np.float32)
    distances = ((points[:, None] - words) ** 2).sum(axis=2)
    assert np.array_equal(Codebook(words).nearest(points, 4), np.argsort(distances)[:, :4])


def test_many_words_in_lists_find_nearly_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptors, _ = blobs(count=40, each=30)
    exact = train_codebook(descriptors, 200)
    monkeypatch.setattr(module, "_LISTED", 100)
    listed = Codebook(exact.words)
    assert (listed.nearest(descriptors) == exact.nearest(descriptors)).mean() > 0.9
    assert len(np.unique(train_codebook(descriptors, 200).words, axis=0)) == 200


def test_descriptors_of_another_length() -> None:
    with pytest.raises(SolarError, match="length 5"):
        Codebook(np.zeros((3, 5), np.float32)).nearest(np.zeros((2, 4), np.float32))


def test_a_file_keeps_words_and_facts(tmp_path: Path) -> None:
    made = Codebook(CHANCE.normal(size=(7, 3)).astype(np.float32), {"local": "sift"})
    made.save(tmp_path / "words.safetensors")
    read = Codebook.read(tmp_path / "words.safetensors")
    assert np.array_equal(read.words, made.words)
    assert read.facts == {"local": "sift"}


def test_what_is_no_codebook(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(SolarError, match="codebook"):
        Codebook.read(tmp_path / "none")
    (tmp_path / "text").write_text("words")
    save_file({"words": np.zeros((2, 2))}, tmp_path / "weights")
    save_file({"words": np.full((1, 2), np.nan)}, tmp_path / "nan", {"codebook": "{}"})
    for name in ("text", "weights", "nan"):
        with pytest.raises(SolarError, match="codebook"):
            Codebook.read(tmp_path / name)
