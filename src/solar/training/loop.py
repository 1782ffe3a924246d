"""The one training loop: resume, precision, averages, checks, logs, validation and checkpoints.

A task (`retrieval`, `classification`, `distillation`, `patches`) is a small subclass of `Trainer`
that says what is trained, what a batch is, what its loss is and how the network is judged.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from math import inf, isfinite
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import nn

from solar.errors import SolarError
from solar.models import save
from solar.models.inference import best_device
from solar.training import distributed
from solar.training.objective import CollapseMonitor, Terms
from solar.training.progress import Bar, Meter
from solar.training.random_state import capture_random, restore_random, seed_everything
from solar.training.run import Run, State
from solar.training.schedule import EMA
from solar.training.shared_recipe import Recipe

R = TypeVar("R", bound=Recipe)
B = TypeVar("B")


class Trainer(ABC, Generic[R, B]):
    """A run: what is trained, how far it is, and where it writes.

    Its folder is for checkpoints, figures and the trained network; `resume` goes on from its newest
    checkpoint, if it has one. A SolarError if the recipe or its data is wrong, or the folder holds
    another run.

    Attributes:
        net: What learns; set by `prepare`, like all up to `monitor`.
        steps: Of the whole run.
        steps_per_epoch: For schedules that fall with every epoch.
        held: What to validate on, or None.
        validate_every: Steps from one validation to the next.
        save_every: Steps between checkpoints, beside those of the recipe's `save_every`; 0: none.
        monitor: Notices a collapse, where the task watches for one.
        step: Steps taken.
        figures: What was last read of the losses.
        best: The best score of a validation so far, and `best_figures` what else it found.
    """

    recipe_class: ClassVar[type[Recipe]]
    """What a recipe file of this task becomes."""
    several: ClassVar[bool] = False
    """Whether several processes may train together."""
    watched: ClassVar[bool] = False
    """Read the losses of every step, before weights move; without it, no step waits for a GPU."""
    validates_first: ClassVar[bool] = False
    """Validate before the first step, too."""

    net: nn.Module
    steps: int
    steps_per_epoch = 1
    held: Any = None
    validate_every = 1
    save_every = 0
    monitor: CollapseMonitor | None = None

    def __init__(
        self, recipe: R, folder: str | Path, *, resume: bool = False, progress: bool = False
    ) -> None:
        self.recipe = recipe
        self._deadline = monotonic() + (inf if recipe.seconds is None else recipe.seconds)
        self.here = distributed.world()
        name = recipe.compute.device or best_device()
        self.device = torch.device(f"cuda:{self.here.local_rank}" if name == "cuda" else name)
        self.run = Run(
            folder,
            recipe,
            resume=resume,
            keep=recipe.keep,
            writes=self.here.leads,
            may_change=recipe.may_change(),
        )
        self.step, self.best, self.collapsed = 0, -inf, False
        self.figures: dict[str, float] = {}
        self.best_figures: dict[str, float] = {}
        self.meter = Meter()
        seed_everything(recipe.seed)
        self.prepare()
        self.net.to(self.device)
        self.optimiser = recipe.optimiser.build(self.parameter_groups(), self.device)
        groups = self.optimiser.param_groups
        self.learning = [parameter for group in groups for parameter in group["params"]]
        self.net.train()
        self.ema = self._new_ema()
        self.bar = Bar(self.steps, shown=progress and self.here.leads)

    # What a task is.

    @abstractmethod
    def prepare(self) -> None:
        """Open the data and build the network; refuse here what makes no sense."""

    @abstractmethod
    def batches(self) -> Iterator[B]:
        """The batches of all steps that are left, from `self.step` on."""

    @abstractmethod
    def terms(self, batch: B) -> Terms:
        """The loss of a batch, and what is logged beside it."""

    @abstractmethod
    def validate(self) -> tuple[float, dict[str, float]]:
        """Judge the network on `held`: a score, of which more is better, and figures."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What the optimiser takes; by default all that learns."""
        return [{"params": [p for p in self.net.parameters() if p.requires_grad]}]

    def ready(self) -> None:
        """Make what needs the weights that training begins with, new or resumed."""

    def begin(self) -> None:
        """Before the first step of a new run."""

    def backward(self, batch: B) -> Terms:
        """Leave the gradients of a batch's loss in the parameters."""
        terms = self.terms(batch)
        torch.autograd.backward(terms["loss"])
        return terms

    def before_update(self) -> None:
        """Between the gradients and the step that follows them."""

    def set_lr(self, first: int = 0) -> None:
        """Give the optimiser the learning rates of a step of a schedule that begins at `first`."""
        steps, epoch = self.steps - first, self.steps_per_epoch
        self.recipe.schedule.apply(
            self.optimiser, self.step - first, steps=steps, steps_per_epoch=epoch
        )

    def extra_figures(self) -> dict[str, float]:
        """What a line of metrics has beside the losses."""
        return {}

    def extra_state(self) -> State:
        """What decides how the task goes on, beside what every run has."""
        return {}

    def load_extra(self, state: State) -> None:
        """The inverse of `extra_state`."""

    def write(self, name: str) -> None:
        """Write the network as it is used, as `name`.safetensors."""
        if self.here.leads:
            with self.used():
                save(self.net, self.run.folder / f"{name}.safetensors")  # type: ignore[arg-type]

    def finish(self) -> dict[str, Any]:
        """Leave the last state as a file; returns what came out."""
        self.write("last")
        if not isfinite(self.best):
            self.write("best")
        return {"model": str(self.run.folder / "best.safetensors"), **self.best_figures}

    # What every task does.

    def fit(self) -> dict[str, Any]:
        """Train to the end, or for as long as there is time; `run`, `steps`, `finished` and more.

        What else it returns is up to `finish`; a SolarError if the training went wrong.
        """
        try:
            with self.run, self.bar:
                self._start()
                for batch in self.batches():
                    self.take(batch)
                    late = self._is_late()
                    self._after_step(late)
                    if late:
                        break
                done = {"steps": self.step, "finished": self.step == self.steps}
                return {"run": str(self.run.folder), **done, **self.finish()}
        except KeyboardInterrupt:
            self.bar.tell(self._stopped())
            raise

    def take(self, batch: B) -> None:
        """Take a step."""
        self.set_lr()
        self.optimiser.zero_grad(set_to_none=True)
        terms = self.backward(batch)
        clip = self.recipe.optimiser.clip
        if clip is not None or self.watched:
            longest = inf if clip is None else clip
            terms["gradient"] = nn.utils.clip_grad_norm_(self.learning, longest)
        self.meter.add(terms)
        if self.watched:
            self._read(self.step + 1)
        self.before_update()
        self.optimiser.step()
        if self.ema is not None:
            self.ema.update(self.net)
        self.step += 1

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the network be the one that a user gets: in evaluation mode, averaged if it is."""
        with nullcontext() if self.ema is None else self.ema.applied(self.net):
            self.net.eval()
            try:
                yield
            finally:
                self.net.train()

    def warn(self, sentence: str) -> None:
        """Print a warning and keep it among the figures."""
        self.run.log(self.step, warning=sentence)
        self.bar.warn(sentence)

    def save(self, *, best: bool = False) -> None:
        """Write a checkpoint; a SolarError if weights are no numbers any more."""
        # A finite loss may have been the last one: its step can still have ruined the weights.
        if not all(bool(p.isfinite().all()) for p in self.learning):
            raise _diverged("Weights became infinite", self.step)
        state = {
            "network": {name: value.cpu() for name, value in self.net.state_dict().items()},
            "optimiser": self.optimiser.state_dict(),
            "ema": None if self.ema is None else self.ema.state_dict(),
            "monitor": None if self.monitor is None else self.monitor.state_dict(),
            "collapsed": self.collapsed,
            "step": self.step,
            "best": self.best,
            "figures": self.figures,
            "best_figures": self.best_figures,
            "random": capture_random(),
            **self.extra_state(),
        }
        self.run.save(self.step, state, best=best)

    def load_weights(self, state: State) -> None:
        """Take over the network of a checkpoint, and its average."""
        self.net.load_state_dict(state["network"])
        if self.ema is not None and state["ema"] is not None:
            self.ema.load_state_dict(state["ema"])

    def _new_ema(self) -> EMA | None:
        return EMA(self.net, self.recipe.ema) if self.recipe.ema else None

    def _start(self) -> None:
        if self.run.state is None:
            self.ready()
            self.begin()
            self.net.train()
            self.ema = self._new_ema()  # of what `begin` has computed
            self.meter = Meter()
            if self.validates_first and self.held is not None:
                self._validate()
            return
        state = self.run.state
        self.load_weights(state)
        self.optimiser.load_state_dict(state["optimiser"])
        if self.monitor is not None:
            self.monitor.load_state_dict(state["monitor"])
        self.step, self.best, self.collapsed = self.run.step, state["best"], state["collapsed"]
        self.figures, self.best_figures = state["figures"], state["best_figures"]
        self.load_extra(state)
        self.bar.advance(self.step, "Resuming")
        self.ready()
        restore_random(state["random"])
        self.meter = Meter()

    def _after_step(self, late: bool) -> None:
        recipe, last = self.recipe, self.step == self.steps
        judged = self.held is not None and (last or self.step % self.validate_every == 0)
        saves = last or late or judged or any(map(self._due, (recipe.save_every, self.save_every)))
        trouble = None if self.monitor is None else self.monitor.look(self.figures)
        if trouble is not None and not self.collapsed:
            self.warn(trouble)
        self.collapsed = trouble is not None
        if saves or self._due(recipe.log_every):
            self._log()
        self.bar.advance(self.step, f"Loss {self.figures.get('loss', 0):.4g}")
        if trouble is not None and self.monitor is not None and self.monitor.stop:
            self.save()
            raise SolarError(trouble)
        best = judged and self._validate()
        if saves:
            self.save(best=best)

    def _stopped(self) -> str:
        if self.run.step:
            return (
                f"Stopped at step {self.step}: `resume=True` continues from step {self.run.step}."
            )
        return f"Stopped at step {self.step}, before the first checkpoint: start the run again."

    def _due(self, every: int) -> bool:
        return every > 0 and self.step % every == 0

    def _is_late(self) -> bool:
        late = monotonic() > self._deadline
        if self.recipe.seconds is None or self.here.size == 1:
            return late
        # Clocks differ: one process decides for all.
        return bool(distributed.share(torch.tensor(late, device=self.device)))

    def _read(self, step: int) -> None:
        self.figures = self.meter.read()
        for name in ("loss", "gradient"):
            if not isfinite(self.figures.get(name, 0)):
                raise _diverged(f"The {name} is {self.figures[name]}", step)

    def _log(self) -> None:
        if not self.watched:
            self._read(self.step)
        watch = {} if self.monitor is None else {"collapsed": self.collapsed}
        lr = self.optimiser.param_groups[-1]["lr"]
        self.run.log(self.step, **self.extra_figures(), **self.figures, lr=lr, **watch)

    def _validate(self) -> bool:
        """Whether the network, as it would be used, is better than it ever was."""
        self.bar.say("Validating")
        score = torch.zeros((), dtype=torch.float64, device=self.device)
        figures: dict[str, float] = {}
        if self.here.leads:
            with self.used():
                found, figures = self.validate()
            self.run.log(self.step, **figures)
            score.fill_(found)
        value = float(distributed.share(score))
        if value <= self.best:
            return False
        self.best, self.best_figures = value, figures
        self.write("best")
        return True


def launch(
    trainer: type[Trainer[Any, Any]], recipe: Recipe, folder: str | Path, **options: Any
) -> dict[str, Any]:
    """Train in this process, or with the others that `torchrun` has started.

    Options are the trainer's; a SolarError if there are several processes and the task takes one.
    """
    if distributed.started_processes() > 1 and not trainer.several:
        raise SolarError(f"A run of {recipe.task} is one process: start it without torchrun.")
    distributed.start(recipe.compute.device)
    try:
        return trainer(recipe, folder, **options).fit()
    finally:
        distributed.stop()


def _diverged(what: str, step: int) -> SolarError:
    return SolarError(
        f"{what} at step {step}, so training has stopped; the last checkpoint is from before. "
        "Lower optimiser.lr, or set optimiser.clip=1, and start a new run."
    )
