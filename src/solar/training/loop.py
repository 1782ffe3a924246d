"""The training loop of all tasks: resume, weight averages, logs, validation and checkpoints.

A task is a subclass of `Trainer` that defines the network, batches, loss and validation.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from math import inf, isfinite
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.models import save
from solar.models.checkpoint import architecture
from solar.models.inference import best_device
from solar.training import distributed
from solar.training.objective import CollapseMonitor, Terms
from solar.training.progress import Bar, Meter
from solar.training.run import Run, State, capture_random, restore_random
from solar.training.shared_recipe import Recipe

R = TypeVar("R", bound=Recipe)
B = TypeVar("B")


class EMA:
    """Exponential moving average of a network's trainable parameters and buffers.

    The decay is at most (1 + n) / (10 + n) after n updates, so that the untrained state is soon
    forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.values = {name: value.clone() for name, value in _moving(model)}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Add the network's state after a step."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        moving = dict(_moving(model))
        averaged = [name for name, value in moving.items() if value.is_floating_point()]
        if averaged:  # on a GPU one kernel instead of hundreds
            averages = [self.values[name] for name in averaged]
            torch._foreach_lerp_(averages, [moving[name] for name in averaged], 1 - decay)
        for name in moving.keys() - set(averaged):
            self.values[name].copy_(moving[name])

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Give the network the average inside the block."""
        kept = {name: value.clone() for name, value in _moving(model)}
        _put(model, self.values)
        try:
            yield
        finally:
            _put(model, kept)

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint."""
        return {"updates": self.updates, "values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.updates = state["updates"]
        for name, value in self.values.items():
            value.copy_(state["values"][name])


def _moving(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield name, parameter.detach()
    yield from model.named_buffers()


@torch.no_grad()
def _put(model: nn.Module, values: dict[str, Tensor]) -> None:
    for name, value in _moving(model):
        value.copy_(values[name])


class Trainer(ABC, Generic[R, B]):
    """A training run.

    The folder gets checkpoints, figures and the trained network; `resume` continues from its newest
    checkpoint, if any. A SolarError if the recipe or its data is wrong, or the folder holds another
    run.

    Attributes:
        net: The network to train. `prepare` sets it and all attributes up to `monitor`.
        steps: Of the whole run.
        steps_per_epoch: For schedules that fall with every epoch.
        held: What to validate on, or None.
        validate_every: Steps between validations.
        save_every: Steps between checkpoints, in addition to the recipe's `save_every`; 0: none.
        monitor: Detects a collapse, in tasks that watch for one.
        step: Steps taken.
        figures: The losses when last read.
        best: The best validation score so far; `best_figures` are its figures.
    """

    recipe_class: ClassVar[type[Recipe]]
    """The type of this task's recipes."""
    several: ClassVar[bool] = False
    """Whether several processes may train together."""
    watched: ClassVar[bool] = False
    """Read the losses of every step before the update; otherwise no step waits for a GPU."""
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
        torch.manual_seed(recipe.seed)
        self.prepare()
        self.net.to(self.device)
        self.optimiser = recipe.optimiser.build(self.parameter_groups(), self.device)
        groups = self.optimiser.param_groups
        self.learning = [parameter for group in groups for parameter in group["params"]]
        self.net.train()
        self.ema = EMA(self.net, recipe.ema) if recipe.ema else None
        self.bar = Bar(self.steps, shown=progress and self.here.leads)

    # Defined by a task.

    @abstractmethod
    def prepare(self) -> None:
        """Open the data and build the network; refuse wrong settings here."""

    @abstractmethod
    def batches(self) -> Iterator[B]:
        """The batches of the remaining steps, from `self.step` on."""

    @abstractmethod
    def terms(self, batch: B) -> Terms:
        """The loss of a batch, and other figures to log."""

    @abstractmethod
    def validate(self) -> tuple[float, dict[str, float]]:
        """Evaluate the network on `held`: a score (higher is better) and figures."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Groups for the optimiser; by default all parameters with gradients."""
        return [{"params": [p for p in self.net.parameters() if p.requires_grad]}]

    def ready(self) -> None:
        """Set up what needs the initial weights, new or resumed."""

    def begin(self) -> None:
        """Called before the first step of a new run."""

    def backward(self, batch: B) -> Terms:
        """Compute the gradients of a batch's loss."""
        terms = self.terms(batch)
        torch.autograd.backward(terms["loss"])
        return terms

    def before_update(self) -> None:
        """Called between the gradients and the optimiser's step."""

    def set_lr(self, first: int = 0) -> None:
        """Set the learning rates, by a schedule that begins at step `first`."""
        self.recipe.schedule.apply(
            self.optimiser,
            self.step - first,
            steps=self.steps - first,
            steps_per_epoch=self.steps_per_epoch,
        )

    def extra_figures(self) -> dict[str, float]:
        """Figures of a line of metrics beside the losses."""
        return {}

    def architecture(self) -> dict[str, str] | None:
        """What `solar.load` needs to read the network of a checkpoint; None if it cannot."""
        return architecture(self.net)  # type: ignore[arg-type]

    def extra_state(self) -> State:
        """The task's own part of a checkpoint."""
        return {}

    def load_extra(self, state: State) -> None:
        """The inverse of `extra_state`."""

    def write(self, name: str) -> None:
        """Write the network as a user gets it, as `name`.safetensors."""
        if self.here.leads:
            with self.used():
                save(self.net, self.run.folder / f"{name}.safetensors")  # type: ignore[arg-type]

    def finish(self) -> dict[str, Any]:
        """Write the last state; returns the task's part of the result of `fit`."""
        self.write("last")
        if not isfinite(self.best):
            self.write("best")
        return {"model": str(self.run.folder / "best.safetensors"), **self.best_figures}

    # The same for every task.

    def fit(self) -> dict[str, Any]:
        """Train to the end or the time limit; a SolarError if training diverges.

        Returns `run`, `steps`, `finished` and the figures of `finish`.
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
        """Put the network in evaluation mode, with averaged weights if there are any."""
        with nullcontext() if self.ema is None else self.ema.applied(self.net):
            self.net.eval()
            try:
                yield
            finally:
                self.net.train()

    def warn(self, sentence: str) -> None:
        """Print a warning and add it to the metrics."""
        self.run.log(self.step, warning=sentence)
        self.bar.warn(sentence)

    def save(self, *, best: bool = False) -> None:
        """Write a checkpoint; a SolarError if weights are not finite."""
        # The step after a finite loss can still make the weights infinite.
        if not all(bool(p.isfinite().all()) for p in self.learning):
            raise _diverged("Weights became infinite", self.step)
        state = {
            "architecture": self.architecture(),
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
        """Load the network of a checkpoint, and its average."""
        self.net.load_state_dict(state["network"])
        if self.ema is not None and state["ema"] is not None:
            self.ema.load_state_dict(state["ema"])

    def _start(self) -> None:
        if self.run.state is None:
            self.ready()
            self.begin()
            self.net.train()
            if self.recipe.ema:  # of the weights that `begin` may have computed
                self.ema = EMA(self.net, self.recipe.ema)
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
            return f"Stopped at step {self.step}: resume to continue from step {self.run.step}."
        return f"Stopped at step {self.step}, before the first checkpoint: start the run again."

    def _due(self, every: int) -> bool:
        return every > 0 and self.step % every == 0

    def _is_late(self) -> bool:
        late = monotonic() > self._deadline
        if self.recipe.seconds is None or self.here.size == 1:
            return late
        # Clocks differ: rank 0 decides.
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
        """Whether the network is the best so far."""
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
    """Train alone or in one of the processes of `torchrun`; options are the trainer's.

    A SolarError if there are several processes and the task supports only one.
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
