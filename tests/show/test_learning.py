import json
from pathlib import Path

import pytest
from PIL import Image

from solar.errors import SolarError
from solar.show.learning import plot_learning, plot_run

pytest.importorskip("matplotlib")
LINES = [
    {"step": 0, "mAP": 20.0},
    {"step": 1, "loss": 0.5, "lr": 1e-6},
    {"step": 2, "loss": None, "lr": 1e-6},
    {"step": 3, "loss": 0.25, "lr": 1e-6, "mAP": 30.0},
]


def test_each_kind_of_figure_has_a_panel_and_gaps_are_left_out() -> None:
    figure = plot_learning(LINES)
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "loss",
        "validation, percent",
    ]
    (curve,) = figure.axes[0].lines
    assert list(curve.get_xdata()) == [1, 3]


def test_a_rate_that_changes_has_a_panel_and_one_that_does_not_a_line_of_text() -> None:
    constant = plot_learning(LINES)
    assert constant.axes[-1].get_xlabel() == "step\nlearning rate 1e-06 throughout"
    changing = plot_learning([*LINES, {"step": 4, "lr": 5e-7}])
    assert changing.axes[-1].get_title(loc="left") == "learning rate"
    assert changing.axes[-1].get_xlabel() == "step"


def test_a_run_in_which_nothing_changes_is_plotted_all_the_same() -> None:
    still = [{"step": step, "loss": 0.5, "lr": 1e-6} for step in (1, 2)]
    assert len(plot_learning(still).axes) == 2


def test_a_run_gets_its_picture(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    path = plot_run(tmp_path)
    assert path is not None
    with Image.open(path) as picture:
        assert picture.format == "PNG"


def test_a_run_without_figures_is_told() -> None:
    with pytest.raises(SolarError, match="no figures"):
        plot_learning([{"step": 0, "warning": "none"}])
