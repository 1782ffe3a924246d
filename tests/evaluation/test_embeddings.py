from __future__ import annotations

import builtins
import importlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from solar.errors import SolarError
from solar.evaluation.embeddings import read_vectors

torch = pytest.importorskip("torch")


@pytest.fixture
def vectors() -> np.ndarray:
    """Five unit vectors of six numbers, a row each."""
    rows = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def save(path: Path, array: np.ndarray) -> Path:
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".pt":
        torch.save(torch.from_numpy(np.ascontiguousarray(array)), path)
    else:
        pytest.importorskip("scipy.io").savemat(path, {"X": array})
    return path


@pytest.mark.parametrize("kind", [".npy", ".pt", ".mat"])
@pytest.mark.parametrize("columns", [False, True])
def test_unit_vectors_are_found_in_either_layout(
    tmp_path: Path, vectors: np.ndarray, kind: str, columns: bool
) -> None:
    path = save(tmp_path / f"x{kind}", vectors.T if columns else vectors)
    np.testing.assert_array_equal(read_vectors(path), vectors)


@pytest.mark.parametrize(("kind", "columns"), [(".npy", False), (".pt", True), (".mat", True)])
def test_vectors_of_other_lengths_are_in_the_usual_layout(
    tmp_path: Path, vectors: np.ndarray, kind: str, columns: bool
) -> None:
    path = save(tmp_path / f"x{kind}", 3 * (vectors.T if columns else vectors))
    np.testing.assert_array_equal(read_vectors(path), 3 * vectors)


def test_a_large_npy_is_mapped(tmp_path: Path, vectors: np.ndarray) -> None:
    assert isinstance(read_vectors(save(tmp_path / "x.npy", vectors)), np.memmap)


def test_a_pt_from_before_the_zip_layout_is_read(tmp_path: Path, vectors: np.ndarray) -> None:
    tensor = torch.from_numpy(vectors.T.copy())
    torch.save(tensor, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    np.testing.assert_array_equal(read_vectors(tmp_path / "x.pt"), vectors)


def test_a_dict_with_one_tensor_needs_no_key(tmp_path: Path, vectors: np.ndarray) -> None:
    torch.save({"vecs": torch.from_numpy(vectors.T.copy()), "epoch": 3}, tmp_path / "x.pt")
    np.testing.assert_array_equal(read_vectors(tmp_path / "x.pt"), vectors)


def test_a_mat_with_queries_and_database_is_asked_for_one(
    tmp_path: Path, vectors: np.ndarray
) -> None:
    path = tmp_path / "roxford5k_resnet.mat"
    pytest.importorskip("scipy.io").savemat(path, {"X": vectors.T, "Q": vectors[:2].T})
    np.testing.assert_array_equal(read_vectors(f"{path}:Q"), vectors[:2])
    np.testing.assert_array_equal(read_vectors(f"{path}:X"), vectors)
    with pytest.raises(SolarError, match="X, Q"):
        read_vectors(path)
    with pytest.raises(SolarError, match="X, Q"):
        read_vectors(f"{path}:Z")


def test_mat_without_scipy_is_one_sentence(
    tmp_path: Path, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "x.mat", vectors)

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SolarError, match="scipy"):
        read_vectors(path)


@pytest.mark.parametrize("kind", [".npy", ".pt", ".mat"])
@pytest.mark.parametrize("keep", [0, 5, 60, -8])
def test_a_truncated_file_is_one_sentence(
    tmp_path: Path, vectors: np.ndarray, kind: str, keep: int
) -> None:
    path = save(tmp_path / f"x{kind}", vectors)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(SolarError, match=f"x{kind}"):
        read_vectors(path)


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return builtins.exec, ("raise SystemExit('the pickle was executed')",)


def test_a_pickle_in_a_pt_is_not_executed(tmp_path: Path) -> None:
    torch.save({"vecs": Malicious()}, tmp_path / "x.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Malicious(), protocol=2))
    for name in ("x.pt", "plain.pt"):
        with pytest.raises(SolarError, match="of plain tensors"):
            read_vectors(tmp_path / name)


def test_a_pickle_in_a_npy_is_not_executed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[Malicious()]]), allow_pickle=True)
    with pytest.raises(SolarError, match=r"\.npy"):
        read_vectors(tmp_path / "x.npy")


@pytest.mark.parametrize(
    "array", [np.ones(6), np.ones((2, 3, 4)), np.ones((2, 3), int)], ids=["1d", "3d", "int"]
)
def test_what_is_no_matrix_of_numbers_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(SolarError, match="matrix"):
        read_vectors(save(tmp_path / "x.npy", array))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="does not exist"):
        read_vectors(tmp_path / "x.npy")


def test_another_kind_of_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.csv").touch()
    with pytest.raises(SolarError, match=r"x\.csv"):
        read_vectors(tmp_path / "x.csv")
