"""The part that training with tuples and with classes share."""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from math import isfinite
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor, nn

from solar.datasets.labelled.training_set import PhotoList, Places
from solar.datasets.seeds import generator
from solar.errors import SolarError
from solar.images import read_image
from solar.models import RetrievalNet
from solar.nn import GeM
from solar.training.loop import Trainer
from solar.training.objective import Terms
from solar.training.retrieval.frozen_front import TrainableNet
from solar.training.retrieval.loader import Loader, TupleBatch
from solar.training.retrieval.parameter_groups import frozen_stages, parameter_groups
from solar.training.retrieval.recipe import PhotoRecipe
from solar.training.retrieval.start import build_network
from solar.training.retrieval.validate import Held, open_photos, validate

P = TypeVar("P", bound=PhotoRecipe)

Batch = tuple[TupleBatch, Tensor]
"""Photos and their labels."""


class PhotoTrainer(Trainer[P, Batch]):
    """A task defines the length of an epoch, batches and loss.

    Attributes:
        data: The photos to train on, as `read` opens them.
        origin: Source of the initial weights of each part of the network.
        loader: Reads the photos.
    """

    several, watched, validates_first = True, True, True
    read: ClassVar[Callable[..., Places]]
    unit: ClassVar[str]
    """What a batch counts."""

    data: Places
    net: RetrievalNet
    held: Held | None
    origin: dict[str, str]
    loader: Loader

    @abstractmethod
    def _loss(self, rows: Tensor, shown: Tensor) -> Terms:
        """The loss of the descriptors of all processes, of which (b, dim) are given."""

    @abstractmethod
    def _steps_per_epoch(self) -> int:
        """Steps of an epoch of the data; a SolarError if they are too few for a batch."""

    def prepare(self) -> None:
        """Open the photos and build the network."""
        recipe, processes = self.recipe, self.here.size
        self.data, self.held = open_photos(recipe, type(self).read)
        if recipe.batch % processes:
            raise SolarError(
                f"A batch of {recipe.batch} {self.unit} cannot be shared by {processes} processes: "
                f"choose a multiple, such as batch={processes}."
            )
        self.save_every = self.steps_per_epoch = self._steps_per_epoch()
        self.validate_every = recipe.validation.every * self.steps_per_epoch
        planned = recipe.epochs * self.steps_per_epoch
        self.steps = min(planned, recipe.steps or planned)
        self.net, self.origin = build_network(recipe.network)
        self.loader = Loader(self.data.photos, recipe.images, recipe.seed, self.device)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parts of the network with their own learning rates."""
        return parameter_groups(self.net, self.recipe.optimiser)

    def ready(self) -> None:
        """Fuse frozen parts, which may copy them, and join the other processes."""
        self.trainable = TrainableNet(self.net, self.recipe.compute, self.recipe.images.augment)
        self.model: nn.Module = self.trainable
        if self.here.size > 1:
            self.model = nn.parallel.DistributedDataParallel(
                self.trainable,
                device_ids=[self.device.index] if self.device.type == "cuda" else None,
                broadcast_buffers=not self.net.freeze_batch_norm,
            )

    def begin(self) -> None:
        """Log the origin of the weights, and warn of odd settings."""
        learning = sum(p.numel() for p in self.learning)
        origin = {f"from_{name}": source for name, source in self.origin.items()}
        self.run.log(0, photos=len(self.loader.photos), parameters=learning, **origin)
        if self.origin["backbone"] == "random" and frozen_stages(self.net):
            self.warn(
                "The backbone starts at random, but only part of it is trained: name a trained "
                "network with network.start or network.features, or set optimiser.backbone.all=1."
            )
        if self.steps <= self.recipe.schedule.warmup:
            self.warn(
                f"All {self.steps} steps of the run are within the warm-up of the learning rate: "
                f"train for longer, or set schedule.warmup={self.steps // 10}."
            )

    def backward(self, batch: Batch) -> Terms:
        """Compute the gradients, in chunks if the recipe has them."""
        chunks = self.recipe.compute.grad_cache_chunks
        if chunks == 1:
            return super().backward(batch)
        photos, shown = batch
        parts = [part for group in photos.groups for part in torch.chunk(group, chunks)]
        with torch.no_grad():
            found = [self.trainable([part], self._chance(n)) for n, part in enumerate(parts)]
        rows = torch.cat(found).requires_grad_()
        terms = self._loss(rows[photos.order.to(self.device)], shown)
        torch.autograd.backward(terms["loss"])
        assert rows.grad is not None
        of_parts = torch.split(rows.grad, [len(part) for part in parts])
        for n, (part, mine) in enumerate(zip(parts, of_parts, strict=True)):
            # Processes exchange gradients once per step, after the last chunk.
            quiet = self.here.size > 1 and n + 1 < len(parts)
            with self.model.no_sync() if quiet else nullcontext():  # type: ignore[operator]
                torch.autograd.backward(self.model([part], self._chance(n)), mine)
        return terms

    def terms(self, batch: Batch) -> Terms:
        """The loss of the photos of all processes."""
        photos, shown = batch
        rows = self.model(photos.groups, self._chance())
        return self._loss(rows[photos.order.to(self.device)], shown)

    def _chance(self, *chunk: int) -> torch.Generator:
        return generator(self.recipe.seed, self.step + 1, self.here.rank, *chunk)

    def validate(self) -> tuple[float, dict[str, float]]:
        """Retrieval of held-out photos."""
        assert self.held is not None
        found = validate(self.net, self.held, self.recipe.validation)
        return found["mAP"], {"epoch": self.step // self.steps_per_epoch, **found}

    def extra_figures(self) -> dict[str, float]:
        """The epoch of the step just taken, and the pooling's exponent."""
        figures: dict[str, float] = {"epoch": (self.step - 1) // self.steps_per_epoch}
        pool = getattr(self.net.pool, "gem", self.net.pool)
        return {**figures, "p": float(pool.p.detach().mean())} if isinstance(pool, GeM) else figures

    def save(self, *, best: bool = False) -> None:
        """Keep the network of an epoch, too, if the recipe asks for it."""
        epoch, more = divmod(self.step, self.steps_per_epoch)
        every = self.recipe.keep_epochs
        if every and not more and epoch % every == 0:
            self.write(f"epoch-{epoch:04d}")
        super().save(best=best)

    def finish(self) -> dict[str, Any]:
        """Write the last state, and warn of unreadable photos."""
        files = super().finish()
        if bad := self.loader.unreadable:
            first = next(iter(bad.values()))
            self.warn(f"{len(bad)} photos could not be read and were replaced; the first: {first}")
        score = self.best if isfinite(self.best) else None
        return {"model": files["model"], "mAP": score, "unreadable": len(bad)}


def contact_sheet(photos: PhotoList, tuples: Tensor) -> NDArray[np.uint8]:
    """Draw the first eight (q, s) tuples in rows: query, positive (green), negatives (red)."""
    colours = ((32, 32, 36), (0, 148, 108), (208, 68, 0))
    rows = [
        [
            np.asarray(ImageOps.expand(_thumbnail(photos, number), 4, colours[min(x, 2)]))
            for x, number in enumerate(row)
        ]
        for row in tuples[:8].tolist()
    ]
    return np.vstack([np.hstack(row) for row in rows])


def _thumbnail(photos: PhotoList, number: int) -> Image.Image:
    try:
        return ImageOps.fit(read_image(photos.read(number)), (92, 92))
    except SolarError:
        return Image.new("RGB", (92, 92), (226, 226, 230))
