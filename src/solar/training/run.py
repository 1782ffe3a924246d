"""The folder of a run, and the random state that its checkpoints keep.

```
recipe.yaml         every setting, defaults included
metrics.jsonl       a line per call of `log`
checkpoints/        step-00000250.pt and so on, the last few; best.pt
pictures/           from `image`
curves.png          learning curves, if matplotlib is installed
tensorboard/        the same figures, if TensorBoard is installed
```
"""

import json
import os
import shutil
from collections.abc import Collection
from contextlib import ExitStack, suppress
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch

from solar.errors import SolarError
from solar.files import LOCK, locked, make_folder, replacing, sweep
from solar.training.recipe import differences, read_recipe, write_recipe

State = dict[str, Any]


class Run:
    """The folder of a training run; `with` opens it, and nothing is written before.

    Resuming cuts `metrics.jsonl` back to the newest checkpoint, so that no line is doubled. On an
    empty folder `resume` starts a run: the same command can be repeated until it is done. A
    SolarError if the folder holds a run and `resume` is off, or if the recipe differs in other
    settings (by dotted names) than `may_change`. Only one process of a distributed run `writes`.

    Attributes:
        step: Step of the newest checkpoint; 0 for a new run.
        state: Content of that checkpoint, or None.
    """

    def __init__(
        self,
        folder: str | Path,
        recipe: Any,
        *,
        resume: bool,
        keep: int = 2,
        writes: bool = True,
        may_change: Collection[str] = (),
    ) -> None:
        self.folder, self.recipe, self.keep, self.writes = Path(folder), recipe, keep, writes
        self.step = 0
        self.state: State | None = None
        self._metrics_bytes = 0  # length at the newest checkpoint
        self._tensorboard: Any = None
        self._metrics: Any = None
        self._alone = ExitStack()
        if resume and (checkpoints := self._checkpoints()):
            self._check_recipe(may_change)
            content = _read_checkpoint(checkpoints[-1])
            self.step, self.state = content["step"], content["state"]
            self._metrics_bytes = content["metrics_bytes"]
        elif not resume and writes and self._holds_a_run():
            raise SolarError(
                f"{folder} already holds a run: add `resume=True` to continue it, or name another "
                "folder."
            )

    def log(self, step: int, **values: float | int | str | bool | None) -> None:
        """Add a line to `metrics.jsonl`, non-finite numbers as null, and numbers to TensorBoard."""
        if not self.writes:
            return
        infinite = {name for name, n in values.items() if isinstance(n, float) and not isfinite(n)}
        line = {"step": step, **values, **dict.fromkeys(infinite)}
        self._metrics.write((json.dumps(line) + "\n").encode())
        self._metrics.flush()
        if self._tensorboard is not None:
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._tensorboard.add_scalar(name, value, step)

    def image(self, step: int, name: str, pixels: "np.ndarray[Any, np.dtype[np.uint8]]") -> None:
        """Write (h, w, 3) pixels to `pictures/NAME.png` and TensorBoard."""
        if not self.writes:
            return
        from PIL import Image

        (self.folder / "pictures").mkdir(exist_ok=True)
        with replacing(self.folder / "pictures" / f"{name}.png") as temporary:
            Image.fromarray(pixels).save(temporary, format="PNG")
        if self._tensorboard is not None:
            self._tensorboard.add_image(name, pixels, step, dataformats="HWC")

    def save(self, step: int, state: State, *, best: bool = False) -> None:
        """Write a checkpoint atomically, the best as `best.pt` too, and delete the oldest.

        A state is tensors, numbers, strings, and lists, tuples and dicts of them.
        """
        if not self.writes:
            return
        os.fsync(self._metrics.fileno())  # its length goes into the checkpoint
        content = {"format": 1, "step": step, "metrics_bytes": self._metrics.tell(), "state": state}
        checkpoints = self.folder / "checkpoints"
        path = checkpoints / f"step-{step:08d}.pt"
        with replacing(path) as temporary:
            torch.save(content, temporary)
        if best:
            with replacing(checkpoints / "best.pt") as temporary:
                shutil.copyfile(path, temporary)
        self.step = step
        for old in self._checkpoints()[: -self.keep]:
            old.unlink(missing_ok=True)

    def best(self) -> State | None:
        """The best state, or None."""
        path = self.folder / "checkpoints" / "best.pt"
        return _read_checkpoint(path)["state"] if path.exists() else None

    def __enter__(self) -> "Run":
        if not self.writes:
            return self
        make_folder(self.folder / "checkpoints")
        busy = f"Another process is training in {self.folder}: wait until it is done."
        self._alone.enter_context(locked(self.folder / LOCK, busy))
        for folder in (self.folder, self.folder / "checkpoints", self.folder / "pictures"):
            sweep(folder)  # temporary files of killed runs
        write_recipe(self.recipe, self.folder / "recipe.yaml")
        self._metrics = (self.folder / "metrics.jsonl").open("ab")
        self._metrics.truncate(self._metrics_bytes)
        self._metrics.seek(0, os.SEEK_END)
        self._tensorboard = _tensorboard(self.folder / "tensorboard", self.step)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files and draw the learning curves."""
        if self._metrics is not None:
            from solar.show.curves import plot_run

            self._metrics.close()
            # A failed run has nothing to draw, and a picture must not fail a good one.
            with suppress(SolarError, OSError):
                plot_run(self.folder)
        if self._tensorboard is not None:
            self._tensorboard.close()
        self._alone.close()

    def _checkpoints(self) -> list[Path]:
        return sorted((self.folder / "checkpoints").glob("step-" + 8 * "[0-9]" + ".pt"))

    def _holds_a_run(self) -> bool:
        metrics = self.folder / "metrics.jsonl"
        return bool(self._checkpoints()) or (metrics.exists() and metrics.stat().st_size > 0)

    def _check_recipe(self, may_change: Collection[str]) -> None:
        path = self.folder / "recipe.yaml"
        if not path.exists():
            return
        saved = read_recipe(type(self.recipe), path)
        changed = differences(saved, self.recipe)
        if wrong := [key for key in changed if key not in may_change]:
            raise SolarError(
                f"The run in {self.folder} was started with another {wrong[0]}: continue "
                "with the same recipe and overrides, or start a new run."
            )


def capture_random() -> dict[str, Any]:
    """State of torch's generators on every device: no step uses those of Python or numpy."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"torch": torch.get_rng_state(), "cuda": gpus}


def restore_random(state: dict[str, Any]) -> None:
    """The inverse of `capture_random`; with another number of GPUs theirs are left alone."""
    torch.set_rng_state(state["torch"].cpu())
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([gpu.cpu() for gpu in state["cuda"]])


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`, without a last one that was cut short."""
    path = Path(folder) / "metrics.jsonl"
    if not path.exists():
        raise SolarError(f"{folder} holds no run: there is no metrics.jsonl.")
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def _read_checkpoint(path: Path) -> dict[str, Any]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can make torch fail in any way
        raise SolarError(
            f"{path} is damaged or not a checkpoint: delete it to continue from the previous one."
        ) from error
    if not isinstance(content, dict) or content.get("format") != 1:
        raise SolarError(f"{path} is not a checkpoint that this version of solar can read.")
    return content


def _tensorboard(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None)
