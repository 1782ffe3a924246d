import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from solar.errors import SolarError
from solar.training.run import Run, capture_random, read_metrics, restore_random


@dataclass(frozen=True)
class Recipe:
    steps: int = 10
    threads: int = 1


def steps_of(folder: Path) -> list[int]:
    return [line["step"] for line in read_metrics(folder)]


def test_a_folder_tells_its_recipe(tmp_path: Path) -> None:
    with Run(tmp_path / "run", Recipe(), resume=False):
        pass
    assert (tmp_path / "run" / "recipe.yaml").read_text() == "steps: 10\nthreads: 1\n"


def test_going_on_cuts_the_figures_back_to_the_checkpoint(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=False) as run:
        run.log(1, loss=0.5)
        run.save(1, {"weights": torch.ones(2)})
        run.log(1, mAP=20.0)
        run.log(2, loss=0.4)
    with Run(tmp_path, Recipe(), resume=True) as run:
        state = run.state
        assert state is not None
        assert run.step == 1
        assert torch.equal(state["weights"], torch.ones(2))
        assert steps_of(tmp_path) == [1]
        run.log(2, loss=0.3)
    assert [line.get("loss") for line in read_metrics(tmp_path)] == [0.5, 0.3]


def test_resuming_an_empty_folder_starts(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=True) as run:
        assert run.state is None


def test_two_processes_never_train_in_one_folder(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=True) as run:
        run.log(1, loss=0.5)
        run.save(1, {"weights": torch.ones(2)})
        with pytest.raises(SolarError, match="process"):
            Run(tmp_path, Recipe(), resume=True).__enter__()
    with Run(tmp_path, Recipe(), resume=True) as run:
        assert run.step == 1


def test_what_a_kill_left_half_written_is_swept(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=True) as run:
        run.save(1, {"weights": torch.ones(2)})
    for folder in (tmp_path, tmp_path / "checkpoints"):
        (folder / ".solar-abcdefgh.tmp").write_bytes(b"half")
    with Run(tmp_path, Recipe(), resume=True):
        assert not list(tmp_path.rglob("*.tmp"))


def test_a_used_folder_is_refused_without_resume(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=False) as run:
        run.log(1, loss=1.0)
    with pytest.raises(SolarError, match="resume=True"):
        Run(tmp_path, Recipe(), resume=False)


def test_a_changed_recipe_is_refused_unless_the_setting_may_change(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=False) as run:
        run.save(1, {})
    with pytest.raises(SolarError, match="another steps"):
        Run(tmp_path, Recipe(steps=11), resume=True)
    Run(tmp_path, Recipe(threads=2), resume=True, may_change=("threads",))


def test_the_last_checkpoints_and_the_best_are_kept(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=False, keep=2) as run:
        for step in range(1, 6):
            run.save(step, {"step": step}, best=step == 2)
        assert run.best() == {"step": 2}
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["best.pt", "step-00000004.pt", "step-00000005.pt"]


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=False) as run:
        run.save(1, {})
    (tmp_path / "checkpoints" / "step-00000001.pt").write_bytes(b"PK")
    with pytest.raises(SolarError, match=r"step-00000001\.pt"):
        Run(tmp_path, Recipe(), resume=True)


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    pixels = np.full((3, 4, 3), 7, np.uint8)
    with Run(tmp_path, Recipe(), resume=False) as run:
        run.image(1, "tuples", pixels)
    with Image.open(tmp_path / "pictures" / "tuples.png") as picture:
        assert np.array_equal(np.asarray(picture), pixels)


def test_a_run_that_ends_draws_its_curves(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with Run(tmp_path, Recipe(), resume=False) as run:
        run.log(1, loss=1.0)
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.format == "PNG"


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with Run(tmp_path, Recipe(), resume=False) as run:
        run.log(3, loss=0.5, warning="text is not for curves")
    events = reading.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(one.step, one.value) for one in events.Scalars("loss")] == [(3, 0.5)]


def test_a_number_that_is_not_finite_stays_readable(tmp_path: Path) -> None:
    with Run(tmp_path, Recipe(), resume=False) as run:
        run.log(1, loss=float("nan"))
    assert read_metrics(tmp_path) == [{"step": 1, "loss": None}]


def test_all_but_one_process_write_nothing(tmp_path: Path) -> None:
    with Run(tmp_path / "run", Recipe(), resume=False, writes=False) as run:
        run.log(1, loss=1.0)
        run.save(1, {})
    assert not (tmp_path / "run").exists()


def test_the_generator_goes_on_where_it_was() -> None:
    torch.manual_seed(3)
    buffer = io.BytesIO()
    torch.save(capture_random(), buffer)
    expected = torch.rand(3)
    torch.manual_seed(4)
    buffer.seek(0)
    restore_random(torch.load(buffer, weights_only=True))
    assert torch.equal(torch.rand(3), expected)
