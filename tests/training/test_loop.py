"""The loop that all tasks share, on a line that learns to be steep."""

import re
from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.training.loop import EMA, Trainer, launch
from solar.training.objective import Terms
from solar.training.run import read_metrics
from solar.training.schedule import Schedule
from solar.training.shared_recipe import Optimiser, Recipe, Validation


class LineTrainer(Trainer[Recipe, Tensor]):
    """Fits y = 3x; a validation is how near the slope is."""

    recipe_class = Recipe

    def prepare(self) -> None:
        self.net, self.steps = nn.Linear(1, 1, bias=False), self.recipe.steps or 1
        self.held = self.recipe.validation.source or None
        self.validate_every = self.recipe.validation.every

    def batches(self) -> Iterator[Tensor]:
        while self.step < self.steps:
            yield torch.randn(4, 1)

    def terms(self, batch: Tensor) -> Terms:
        return {"loss": (self.net(batch) - 3 * batch).square().mean()}

    def validate(self) -> tuple[float, dict[str, float]]:
        slope = float(next(self.net.parameters()).detach())
        return -abs(slope - 3), {"slope": slope}

    def architecture(self) -> None:
        """The network is none that solar loads."""

    def write(self, name: str) -> None:
        state = {key: value.clone() for key, value in self.net.state_dict().items()}
        torch.save(state, self.run.folder / f"{name}.pt")


def recipe(**settings: Any) -> Recipe:
    common = {"steps": 9, "log_every": 2, "schedule": Schedule("constant")}
    return Recipe(optimiser=Optimiser(lr=0.1), **{**common, **settings})


def test_figures_of_a_line_are_means_since_the_last(tmp_path: Path) -> None:
    summary = LineTrainer(recipe(save_every=5), tmp_path).fit()
    assert (summary["steps"], summary["finished"]) == (9, True)
    lines = read_metrics(tmp_path)
    # Beside every second step, those with a checkpoint: there a resumed run goes on.
    assert [line["step"] for line in lines] == [2, 4, 5, 6, 8, 9]
    assert lines[0]["lr"] == 0.1
    each = read_metrics_of_every_step(tmp_path / "each")
    assert lines[0]["loss"] == pytest.approx(sum(each[:2]) / 2)
    assert lines[2]["loss"] == pytest.approx(each[4])


def read_metrics_of_every_step(folder: Path) -> list[float]:
    LineTrainer(recipe(log_every=1), folder).fit()
    return [line["loss"] for line in read_metrics(folder)]


def test_time_that_is_up_ends_a_run_with_a_checkpoint_from_where_it_goes_on(tmp_path: Path) -> None:
    whole = LineTrainer(recipe(ema=0.5), tmp_path / "whole")
    whole.fit()
    for _ in range(9):
        part = LineTrainer(recipe(ema=0.5, seconds=0), tmp_path / "parts", resume=True)
        summary = part.fit()
    assert summary["finished"]
    assert torch.equal(part.net.weight, whole.net.weight)  # type: ignore[arg-type]
    assert part.ema is not None
    assert whole.ema is not None
    assert torch.equal(part.ema.values["weight"], whole.ema.values["weight"])


def test_the_best_state_is_kept(tmp_path: Path) -> None:
    validation = Validation(("somewhere",), every=3)
    summary = LineTrainer(recipe(validation=validation, steps=7), tmp_path).fit()
    found = {line["step"]: line["slope"] for line in read_metrics(tmp_path) if "slope" in line}
    assert list(found) == [3, 6, 7]
    best = min(found.values(), key=lambda slope: abs(slope - 3))
    assert summary["slope"] == best
    assert torch.load(tmp_path / "best.pt")["weight"].item() == pytest.approx(best)


def test_a_clipped_gradient_is_told_and_no_longer(tmp_path: Path) -> None:
    settings = recipe(steps=1)
    clipped = Recipe(optimiser=Optimiser("sgd", 1.0, clip=0.01), steps=1)
    moved = []
    for one in (settings, clipped):
        trainer = LineTrainer(one, tmp_path / one.optimiser.kind)
        before = trainer.net.weight.item()  # type: ignore[operator]
        trainer.fit()
        moved.append(abs(trainer.net.weight.item() - before))  # type: ignore[operator]
    assert moved[1] == pytest.approx(0.01, rel=1e-3)
    assert "gradient" not in read_metrics(tmp_path / "adam")[0]
    assert read_metrics(tmp_path / "sgd")[0]["gradient"] > 0.01


def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path) -> None:
    trainer = LineTrainer(recipe(save_every=1), tmp_path)
    trainer.before_update = lambda: trainer.net.weight.data.fill_(float("inf"))  # type: ignore[method-assign, union-attr, operator]
    with pytest.raises(SolarError, match="step 1"):
        trainer.fit()
    assert not list((tmp_path / "checkpoints").iterdir())


def test_several_processes_are_refused_where_one_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SolarError, match="torchrun"):
        launch(LineTrainer, recipe(), tmp_path)


class StoppedTrainer(LineTrainer):
    """Somebody presses Ctrl-C after step 4."""

    def batches(self) -> Iterator[Tensor]:
        for batch in super().batches():
            if self.step == 4:
                raise KeyboardInterrupt
            yield batch


@pytest.mark.parametrize(
    ("every", "told"),
    [
        (3, r"step 4.* resume.* step 3"),
        (0, r"step 4.* checkpoint"),
    ],
)
def test_who_stops_a_run_is_told_where_it_goes_on(
    tmp_path: Path,
    every: int,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("solar.training.progress._PAUSE", 0.0)
    with pytest.raises(KeyboardInterrupt):
        StoppedTrainer(recipe(save_every=every), tmp_path, progress=True).fit()
    lines = capsys.readouterr().err.splitlines(keepends=True)
    assert lines[0].endswith(": 1 of 9 steps\n")  # without a terminal, there are lines
    assert re.search(told, lines[-1])


@pytest.mark.parametrize("epoch", [0, 1, 7, 50])
@pytest.mark.parametrize("within", [0, 249])
def test_the_published_rate_falls_once_an_epoch(epoch: int, within: int) -> None:
    step = epoch * 250 + within
    factor = Schedule().factor(step, steps=25_000, steps_per_epoch=250)
    assert factor == exp(-0.01 * epoch)


def test_warm_up_climbs_to_the_base() -> None:
    schedule = Schedule("constant", warmup=3)
    assert [schedule.factor(s, steps=9) for s in range(5)] == [0.25, 0.5, 0.75, 1, 1]


@pytest.mark.parametrize(("kind", "half"), [("cosine", 0.5), ("linear", 0.5)])
def test_cosine_and_linear_end_at_the_final_part(kind: str, half: float) -> None:
    schedule = Schedule(kind, final=0.1)  # type: ignore[arg-type]
    assert schedule.factor(0, steps=10) == 1
    assert schedule.factor(5, steps=10) == pytest.approx(0.1 + 0.9 * half)
    assert schedule.factor(10, steps=10) == pytest.approx(0.1)


def test_each_group_keeps_its_own_base() -> None:
    a, b = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimiser = torch.optim.Adam([{"params": [a], "lr": 1.0}, {"params": [b], "lr": 100.0}])
    for _ in range(2):
        Schedule().apply(optimiser, 10, steps=100, steps_per_epoch=10)
    assert [group["lr"] for group in optimiser.param_groups] == [exp(-0.01), 100 * exp(-0.01)]


def test_a_negative_warm_up_is_refused() -> None:
    with pytest.raises(SolarError, match="warmup must be"):
        Schedule(warmup=-1)


def net(value: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, value)
    return layer


def test_the_average_follows_with_its_decay() -> None:
    model = net(0.0)
    average = EMA(model, decay=0.1)
    nn.init.constant_(model.weight, 1.0)
    average.update(model)
    assert average.values["weight"].item() == torch.tensor(0.9).item()


def test_it_is_lent_to_the_network_and_taken_back() -> None:
    model = net(0.0)
    average = EMA(model, decay=0.9)
    nn.init.constant_(model.weight, 1.0)
    with average.applied(model):
        assert model.weight.item() == 0.0
    assert model.weight.item() == 1.0


def test_counters_are_taken_over_as_they_are() -> None:
    model = nn.BatchNorm1d(2)
    average = EMA(model, decay=0.5)
    model(torch.randn(4, 2))
    average.update(model)
    assert average.values["num_batches_tracked"].item() == 1


def test_frozen_parameters_are_not_copied() -> None:
    model = net(0.0).requires_grad_(False)
    assert EMA(model, decay=0.9).values == {}


def test_a_saved_average_goes_on() -> None:
    model = net(0.0)
    average, other = EMA(model, decay=0.9), EMA(net(5.0), decay=0.9)
    nn.init.constant_(model.weight, 1.0)
    average.update(model)
    other.load_state_dict(average.state_dict())
    average.update(model)
    other.update(model)
    assert other.values["weight"].item() == average.values["weight"].item()
