"""Training: recipes, runs that can be stopped anywhere, and one loop for each kind of network."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from solar.errors import SolarError

__all__ = ["train"]

# Each has a function train(path, overrides, *, run, resume, progress) that returns a summary.
_TASKS = {
    "retrieval": "solar.training.retrieval",
    "patches": "solar.training.patches",
    "distill": "solar.training.distillation",
}


def train(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    run: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Train a network as a recipe says.

    Args:
        recipe: A YAML file; its `task` is retrieval (the default), patches or distill.
        overrides: `loss.margin=0.9` and the like, on top of the recipe.
        run: The folder for checkpoints, figures and the trained network. Default: `runs/` and the
            recipe's name.
        resume: Go on from the folder's newest checkpoint, if it has one.
        progress: Draw a bar with the time left on standard error, if that is a terminal.

    Returns:
        What came out: `run`, `steps`, `model` (the file to load) and the task's own figures.

    Raises:
        SolarError: The recipe or its data is wrong, or the training went wrong.
    """
    from solar.training.recipe import read_settings

    task = read_settings(recipe, overrides).get("task", "retrieval")
    if task not in _TASKS:
        known = ", ".join(_TASKS)
        raise SolarError(f"{recipe}: there is no task {task!r}: choose from {known}.")
    folder = Path("runs") / Path(recipe).stem if run is None else Path(run)
    work = import_module(_TASKS[task]).train
    summary: dict[str, Any] = work(
        recipe, tuple(overrides), run=folder, resume=resume, progress=progress
    )
    return summary
