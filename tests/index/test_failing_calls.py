"""Every file-system call fails in turn: what is stored is as before or as after."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch
from support.failing_calls import each_call_fails

from solar.errors import SolarError
from solar.index import Index, PhotoIndex
from solar.storage.folder_engine import begin, finished, open_index
from solar.storage.protocol import NoIndexError, Piece
from solar.storage.types import Amendment, DescriptorSpec, Photo, Skipped
from solar.training.run import Run

FULL = (errno.ENOSPC,)
DIM = 8
ROWS = np.eye(DIM, dtype=np.float32)
NAMES = [f"{n}.jpg" for n in range(DIM)]


def opened(folder: Path) -> PhotoIndex:
    return Index.open(folder)


def content(folder: Path) -> dict[str, list[float]]:
    """What an index holds; nothing where there is none."""
    try:
        index = opened(folder)
    except NoIndexError:
        return {}
    with index:
        assert index.check() == []
        paths = [photo.path for batch in index.engine.photos() for photo in batch]
        found = index.engine.lookup(paths)
        return {path: vector.tolist() for path, (_, vector) in found.items()}


def create(folder: Path) -> None:
    Index.create(folder, ROWS, NAMES).close()


def changing(change: Callable[[PhotoIndex], Any]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        with opened(folder) as index:
            change(index)

    return changed


CHANGES = {
    "create": create,
    "add": changing(lambda index: index.add(ROWS[:2], ["a.jpg", "b.jpg"])),
    "replace": changing(lambda index: index.add(ROWS[[7, 6]], ["1.jpg", "2.jpg"])),
    "remove": changing(lambda index: index.remove(["1.jpg", "2.jpg"])),
    "compact": changing(lambda index: index.compact()),
    "amend": changing(lambda index: index.engine.amend(Amendment(["4.jpg"], {"5.jpg": "new.jpg"}))),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_index_is_as_before_or_as_after(tmp_path: Path, name: str) -> None:
    change, whole = CHANGES[name], tmp_path / "photos.solar"
    if name != "create":
        create(whole)
        with opened(whole) as index:
            index.remove(["0.jpg"])
    before = content(whole)
    after: dict[str, list[float]] | None = None
    told = 0
    for what, copy, raised in each_call_fails(whole, change):
        assert raised is None or isinstance(raised, SolarError), f"{what}: {raised!r}"
        if after is None:
            done = tmp_path / "done"
            if whole.exists():
                copytree(whole, done)
            change(done)
            after = content(done)
        now = content(copy)
        assert now in (before, after), what
        if raised is None:
            assert now == after, what
        told += raised is not None
        if now != after:  # what failed can be repeated, and then succeeds
            change(copy)
        assert content(copy) == after, what
    assert told


SPEC = DescriptorSpec(DIM, "m", "f")


def build(folder: Path) -> None:
    """What a build does, with vectors that are there at once: four segments and a failure."""
    engine = open_index(folder) if finished(folder) else begin(folder, SPEC)
    known = engine.stamps().keys()
    with engine.filling():
        for first in range(0, DIM, 2):
            names = [name for name in NAMES[first : first + 2] if name not in known]
            rows = ROWS[[NAMES.index(name) for name in names]]
            torn = {"torn.jpg": Skipped("torn")} if first == 4 else {}
            if names:
                engine.fill(Piece([Photo(name) for name in names], rows, torn))
    if engine.unfinished:
        engine.finish()
    engine.close()


def test_a_build_goes_on_after_any_failure(tmp_path: Path) -> None:
    told = 0
    for what, copy, raised in each_call_fails(tmp_path / "photos.solar", build):
        assert raised is None or isinstance(raised, SolarError), f"{what}: {raised!r}"
        told += raised is not None
        build(copy)
        with opened(copy) as index:
            assert index.check() == [], what
            assert index.paths == NAMES, what
            assert np.array_equal(np.asarray(index.vectors), ROWS), what
            assert list(index.skipped) == ["torn.jpg"], what
            assert "unfinished" not in index.info(), what
        assert len(list((copy / "segments").iterdir())) == 4, what
    assert told > 20


@dataclass(frozen=True)
class Recipe:
    steps: int = 10


def save_checkpoint(folder: Path) -> None:
    with Run(folder, Recipe(), resume=True) as run:
        run.log(run.step + 1, loss=0.5)
        run.save(run.step + 1, {"weights": torch.ones(2) * (run.step + 1)}, best=True)


def test_a_checkpoint_is_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Others write these, in their own way.
    monkeypatch.setattr("solar.training.run._tensorboard", lambda *_: None)
    monkeypatch.setattr("solar.show.curves.plot_run", lambda _: None)
    save_checkpoint(tmp_path / "run")
    for what, copy, _ in each_call_fails(tmp_path / "run", save_checkpoint, FULL):
        run = Run(copy, Recipe(), resume=True)
        assert run.step in (1, 2), what
        assert run.state is not None
        assert run.state["weights"].tolist() == [run.step] * 2, what
