"""Training a patch network on pairs of patches from any source."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.losses import PatchLoss
from solar.models import PatchNet, load
from solar.training.loop import Trainer
from solar.training.objective import Terms
from solar.training.patches.data import Validate, open_source, open_validation
from solar.training.patches.recipe import PatchRecipe
from solar.training.patches.sources import PatchSource


class PatchTrainer(Trainer[PatchRecipe, Tensor]):
    """A run of `task: patches`; keypoints of photos are kept in its folder, too."""

    recipe_class = PatchRecipe
    net: PatchNet
    held: Validate | None

    def open_source(self) -> PatchSource:
        """Open the pairs that the recipe names."""
        self.run.folder.mkdir(parents=True, exist_ok=True)
        return open_source(self.recipe, self.device, cache=self.run.folder / "keypoints.npz")

    def prepare(self) -> None:
        """Open the pairs and build the network."""
        recipe = self.recipe
        self.source = self.open_source()
        self.steps_per_epoch = self.source.batches
        self.steps = recipe.steps or recipe.epochs * self.steps_per_epoch
        self.validate_every = recipe.validation.every or self.steps_per_epoch
        self.held = open_validation(recipe.validation)
        self.net = PatchNet(recipe.network.config())
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # every batch has the same shape
            _tensor_core_layout(self.net)
        self._run: Any = torch.compile(self.net) if recipe.compute.compile else self.net
        self._teacher = _Teacher(recipe, self.device) if recipe.teacher.model else None

    def batches(self) -> Iterator[Tensor]:
        """Pairs (2, n, 1, 32, 32)."""
        while self.step < self.steps:
            yield self.source.batch(self._number())

    def _number(self) -> int:
        different = self.recipe.teacher.batches
        return self.step % different if different else self.step

    def terms(self, batch: Tensor) -> Terms:
        """Describe pairs, all as one batch for the batch norms, and compare."""
        patches = batch.flatten(0, 1)
        with self.recipe.compute.computing(self.device):
            rows = self._run(patches).float()
        found = self.recipe.loss(*rows.chunk(2))
        terms = dict(zip(("loss", *PatchLoss._fields[1:]), found, strict=True))
        if self._teacher is None:
            return terms
        apart = (rows - self._teacher.rows(self._number(), patches)).square().sum()
        return {**terms, "loss": terms["loss"] + self.recipe.teacher.weight * apart, "apart": apart}

    def validate(self) -> tuple[float, dict[str, float]]:
        """Judge the network by other patches."""
        assert self.held is not None
        figures = self.held(self.net)
        return figures["score"], figures

    def extra_figures(self) -> dict[str, float]:
        """How fast it is."""
        return {"steps_a_second": self.meter.speed}

    def finish(self) -> dict[str, Any]:
        """Write the last state."""
        return {name: value for name, value in super().finish().items() if name != "score"}


class _Teacher:
    def __init__(self, recipe: PatchRecipe, device: torch.device) -> None:
        net = load(recipe.teacher.model, device=device)
        if not isinstance(net, PatchNet):
            raise SolarError(f"teacher.model: {recipe.teacher.model} does not describe patches.")
        self._net = net.requires_grad_(False)
        self._compute, self._device = recipe.compute, device
        self._remembers = recipe.teacher.batches > 0
        self._known: dict[int, Tensor] = {}

    def rows(self, number: int, patches: Tensor) -> Tensor:
        """Its descriptors (n, 128) of the patches of a batch."""
        rows = self._known.get(number)
        if rows is None:
            with torch.no_grad(), self._compute.computing(self._device):
                rows = self._net(patches)
            if self._remembers:  # rounded at once, so that a resumed run sees the same numbers
                rows = self._known[number] = rows.half().cpu()
        return rows.to(self._device).float()


def _tensor_core_layout(net: nn.Module) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            data = module.weight.data
            module.weight.data = data.contiguous(memory_format=torch.channels_last)
