"""Training: recipes, resumable runs, one loop and four tasks."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from solar.errors import SolarError

__all__ = ["train"]

# The `solar.training.loop.Trainer` of each task.
_TASKS = {
    "retrieval": ("solar.training.retrieval.task", "RetrievalTrainer"),
    "places": ("solar.training.retrieval.classification", "PlaceTrainer"),
    "patches": ("solar.training.patches.task", "PatchTrainer"),
    "distill": ("solar.training.distill.task", "DistillTrainer"),
}


def train(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    run: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Train or fine-tune a network from a recipe.

    Args:
        recipe: A YAML file, or the name of a bundled recipe; its `task` is retrieval (the default),
            places, patches or distill.
        overrides: `loss.margin=0.9` and the like, on top of the recipe.
        run: The folder for checkpoints, figures and the trained network. Default: `runs/` and the
            recipe's name.
        resume: Continue from the newest checkpoint in the folder, if any.
        progress: Show progress on standard error.

    Returns:
        `run`, `steps`, `finished`, `model` (the file to load) and the task's own figures.

    Raises:
        SolarError: The recipe or its data is wrong, or training diverged.
    """
    from solar.training.loop import launch
    from solar.training.recipe import build, read_settings

    settings = read_settings(recipe, overrides)
    task = settings.get("task", "retrieval")
    if task not in _TASKS:
        known = ", ".join(_TASKS)
        raise SolarError(f"{recipe}: there is no task {task!r}: choose from {known}.")
    module, name = _TASKS[task]
    trainer = getattr(import_module(module), name)
    folder = Path("runs") / Path(recipe).stem if run is None else Path(run)
    built = build(trainer.recipe_class, settings, str(recipe))
    return launch(trainer, built, folder, resume=resume, progress=progress)
