"""Trouble of the machine is not taken for a photo that cannot be read."""

import copy
import errno
import os
from pathlib import Path
from shutil import copytree

import pytest
import torch
from support.filled import filled

from solar.describe import Throughput, pipeline
from solar.describe.cluster import Proof
from solar.describe.runtime import describer
from solar.describe.settings import Settings
from solar.errors import PassingError, SolarError
from solar.images import find_photos
from solar.models import RetrievalNet
from solar.storage.folder_engine import finished

HERE = Throughput(decoders=0, batch=4)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_PAUSES", (0.0, 0.0))


def failing(monkeypatch: pytest.MonkeyPatch, times: int, number: int) -> list[Path]:
    """Have the system fail to open photos a number of times; those that it failed for."""
    reading, failed = Path.read_bytes, list[Path]()

    def read(path: Path) -> bytes:
        if str(path).endswith("05.png") and len(failed) < times:
            failed.append(path)
            raise OSError(number, os.strerror(number), str(path))
        return reading(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    return failed


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ESTALE])
def test_what_passes_is_tried_again(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    failed = failing(monkeypatch, 2, number)
    index = filled(photos, tmp_path / "s", model=tiny, throughput=HERE)
    assert len(failed) == 2
    assert len(index) == 24
    assert not any("05.png" in name for name in index.skipped)


def test_what_does_not_pass_ends_the_run_and_the_next_one_goes_on(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        failing(patched, 10**6, errno.EMFILE)
        with pytest.raises(PassingError, match="Too many open files"):
            filled(photos, tmp_path / "s", model=tiny, throughput=HERE, rows=4)
    assert not finished(tmp_path / "s")
    assert len(filled(photos, tmp_path / "s", model=tiny, throughput=HERE, rows=4)) == 24


def test_a_folder_that_is_renamed_midway_ends_the_run(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    copytree(photos, tmp_path / "p")
    found = find_photos(tmp_path / "p")
    (tmp_path / "p" / "landmark-2").rename(tmp_path / "elsewhere")
    with pytest.raises(PassingError, match="landmark-2"):
        filled(found, tmp_path / "s", model=tiny, throughput=HERE)
    assert not finished(tmp_path / "s")


def test_a_photo_that_is_deleted_midway_costs_only_itself(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    copytree(photos, tmp_path / "p")
    found = find_photos(tmp_path / "p")
    (tmp_path / "p" / "landmark-2" / "02.png").unlink()
    index = filled(found, tmp_path / "s", model=tiny, throughput=HERE)
    assert "landmark-2/02.png" in index.skipped
    assert len(index) == 23


def test_a_worker_must_compute_the_same(
    tiny: RetrievalNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.of(tiny)
    proof, describe = Proof.of(tiny, settings), describer(tiny, settings)
    proof.check(describe)
    other = copy.deepcopy(tiny)
    assert other.whiten is not None
    with torch.no_grad():
        for weight in other.whiten.parameters():
            weight.neg_()
    with pytest.raises(SolarError, match="similarity"):
        proof.check(describer(other, settings))
    monkeypatch.setattr("solar.describe.cluster.__version__", "0.0.9")
    with pytest.raises(SolarError, match=r"0\.0\.9"):
        proof.check(describe)


def test_workers_may_compute_by_another_runtime(
    tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path))  # no other test may find this graph
    proof = Proof.of(tiny, Settings.of(tiny, backend="torch"))
    proof.check(describer(tiny, Settings.of(tiny, backend="openvino")))


def test_a_cluster_without_workers_is_one_sentence(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed", reason='pip install "solar-retrieval[dask]"')
    monkeypatch.setattr("solar.describe.cluster.TIMEOUT", 1)
    nobody = {"n_workers": 0, "processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(**nobody) as cluster,
        pytest.raises(SolarError, match="workers"),
    ):
        filled(photos, tmp_path / "s", model=tiny, scheduler=cluster.scheduler_address)
