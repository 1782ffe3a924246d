"""Training a patch network: one step after the other, on pairs from any source."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.losses import PatchLoss
from solar.models import PatchNet, save
from solar.models.inference import best_device
from solar.training.distributed import started_processes
from solar.training.ema import EMA
from solar.training.patch_data import Validate, open_source, open_validation
from solar.training.patch_recipe import Compute, Optimiser, PatchRecipe
from solar.training.patch_sources import PatchSource
from solar.training.progress import Bar
from solar.training.random_state import capture_random, restore_random, seed_everything
from solar.training.recipe import read_recipe
from solar.training.run import Run, State
from solar.training.schedule import set_learning_rate


def train(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    run: str | Path,
    resume: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Train as a recipe says; arguments and result as for `solar.train`.

    Raises:
        SolarError: As for `solar.train`, or `torchrun` has started several processes.
    """
    if started_processes() > 1:
        raise SolarError("A patch network trains in one process: start it without torchrun.")
    recipe = read_recipe(PatchRecipe, path, overrides)
    with Run.open(
        run, recipe, resume=resume, keep=recipe.keep, may_change=recipe.may_change()
    ) as opened:
        device = torch.device(recipe.compute.device or best_device())
        source = open_source(recipe, device, cache=opened.folder / "keypoints.npz")
        training = Training(recipe, source, device)
        return _Loop(training, opened, open_validation(recipe.validation), progress).fit()


class Training:
    """A network on its way: what a step changes, and nothing else.

    Attributes:
        net: The network, in training mode between steps.
        step: Steps taken.
        steps: Of the whole training.
    """

    def __init__(self, recipe: PatchRecipe, source: PatchSource, device: torch.device) -> None:
        self.recipe, self.source, self.device = recipe, source, device
        self.step, self.steps = 0, recipe.steps or recipe.epochs * source.batches
        seed_everything(recipe.seed)
        self.net = PatchNet(recipe.network.config()).to(device).train()
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # every batch has the same shape
            _tensor_core_layout(self.net)
        self.optimiser = _make_optimiser(self.net, recipe.optimiser)
        self.average = None if recipe.ema is None else EMA(self.net, recipe.ema)
        self._run: Any = torch.compile(self.net) if recipe.compute.compile else self.net

    def take(self) -> PatchLoss:
        """Take a step. The losses come back as tensors: nobody waits for a GPU here."""
        set_learning_rate(
            self.optimiser,
            self.recipe.schedule,
            self.step,
            steps=self.steps,
            steps_per_epoch=self.source.batches,
        )
        losses = self.losses(self.source.batch(self.step))
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(losses.total)
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.net)
        self.step += 1
        return PatchLoss(*(part.detach() for part in losses))

    def losses(self, pairs: Tensor) -> PatchLoss:
        """Describe pairs (2, n, 1, 32, 32), all as one batch for the batch norms, and compare."""
        with computing(self.recipe.compute, self.device):
            rows = self._run(pairs.flatten(0, 1))
        return self.recipe.loss(*rows.float().chunk(2))

    @contextmanager
    def used(self) -> Iterator[PatchNet]:
        """The network that a user gets, in evaluation mode for as long as the block lasts."""
        with nullcontext() if self.average is None else self.average.applied(self.net):
            self.net.eval()
            try:
                yield self.net
            finally:
                self.net.train()

    def state(self) -> State:
        """Everything that decides how the training goes on."""
        return {
            "network": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "step": self.step,
            "random": capture_random(),
        }

    def load(self, state: State) -> None:
        """Go on from a `state`."""
        self.net.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.step = state["step"]
        restore_random(state["random"])


@contextmanager
def computing(compute: Compute, device: torch.device) -> Iterator[None]:
    """Compute in the chosen precision inside the block."""
    precision = compute.precision
    if precision == "auto":
        precision = "bf16" if device.type == "cuda" else "float32"
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = precision != "float32"
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


class Meter:
    """Mean losses since it was last read, without waiting for a GPU before that."""

    def __init__(self) -> None:
        self._seen: list[Tensor] = []
        self._since = time.monotonic()

    def add(self, losses: PatchLoss) -> None:
        """Take in the losses of a step."""
        self._seen.append(torch.stack(losses))

    def read(self, step: int) -> dict[str, float]:
        """Mean losses and speed, and start anew.

        Raises:
            SolarError: A loss was NaN or infinite.
        """
        means = torch.stack(self._seen).mean(0).tolist()
        figures: dict[str, float] = dict(zip(("loss", *PatchLoss._fields[1:]), means, strict=True))
        if not isfinite(figures["loss"]):
            raise _diverged(f"The loss became {figures['loss']}", step)
        now = time.monotonic()
        figures["steps_a_second"] = len(self._seen) / max(now - self._since, 1e-9)
        self._seen, self._since = [], now
        return figures


class _Loop:
    """A training with its run folder: metrics, validations, checkpoints, the files in the end."""

    def __init__(
        self, training: Training, run: Run, validate: Validate | None, progress: bool
    ) -> None:
        self.training, self.run, self.validate = training, run, validate
        self.recipe, self.best = training.recipe, float("-inf")
        self.figures: dict[str, float] = {}
        self.bar = Bar(training.steps, shown=progress)
        state = run.latest()
        if state is not None:
            training.load(state["training"])
            self.best, self.figures = state["best"], state["figures"]
            self.bar.advance(training.step, "Going on")

    def fit(self) -> dict[str, Any]:
        training, recipe, meter = self.training, self.recipe, Meter()
        start, every = time.monotonic(), recipe.validation.every or training.source.batches
        late = False
        with self.bar:
            while training.step < training.steps and not late:
                meter.add(training.take())
                step = training.step
                late = recipe.seconds is not None and time.monotonic() - start > recipe.seconds
                last = late or step == training.steps
                validates = last or (self.validate is not None and step % every == 0)
                saves = validates or (recipe.save_every > 0 and step % recipe.save_every == 0)
                if saves or step % recipe.log_every == 0:
                    self._log(meter.read(step))
                if validates:
                    self._judge()
                if saves:
                    self._save()
        return self._finish()

    def _log(self, figures: dict[str, float]) -> None:
        rate = self.training.optimiser.param_groups[0]["lr"]
        self.run.log(self.training.step, **figures, rate=rate)
        self.bar.advance(self.training.step, f"Loss {figures['loss']:.4g}")

    def _judge(self) -> None:
        if self.validate is None:
            return
        self.bar.say("Validating")
        with self.training.used() as net:
            figures = self.validate(net)
            self.run.log(self.training.step, **figures)
            if figures["score"] > self.best:
                self.best, self.figures = figures["score"], figures
                save(net, self.run.folder / "best.safetensors")

    def _save(self) -> None:
        # A finite loss may have been the last one: its step can still have ruined the weights.
        if not all(bool(p.isfinite().all()) for p in self.training.net.parameters()):
            raise _diverged("Weights became infinite", self.training.step)
        state = {"training": self.training.state(), "best": self.best, "figures": self.figures}
        self.run.save(self.training.step, state)

    def _finish(self) -> dict[str, Any]:
        with self.training.used() as net:
            for name in ("last",) if self.validate is not None else ("last", "best"):
                save(net, self.run.folder / f"{name}.safetensors")
        found = {name: value for name, value in self.figures.items() if name != "score"}
        model = str(self.run.folder / "best.safetensors")
        return {"run": str(self.run.folder), "steps": self.training.step, "model": model, **found}


def _diverged(what: str, step: int) -> SolarError:
    return SolarError(
        f"{what} by step {step}, so training has stopped; the last checkpoint is from before. "
        "Lower optimiser.rate and start a new run."
    )


def _make_optimiser(net: nn.Module, settings: Optimiser) -> torch.optim.Optimizer:
    parameters = list(net.parameters())
    if settings.kind == "sgd":
        return torch.optim.SGD(
            parameters,
            settings.rate,
            momentum=settings.momentum,
            dampening=settings.dampening,
            weight_decay=settings.decay,
        )
    on_gpu = parameters[0].is_cuda
    return torch.optim.Adam(parameters, settings.rate, weight_decay=settings.decay, fused=on_gpu)


def _tensor_core_layout(net: nn.Module) -> None:
    """Lay convolutions out as tensor cores read them; feature maps follow."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            data = module.weight.data
            module.weight.data = data.contiguous(memory_format=torch.channels_last)
