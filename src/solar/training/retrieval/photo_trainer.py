"""The part that training with tuples and with classes share."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from math import isfinite
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor, nn

from solar.datasets.labelled.training_set import Places
from solar.datasets.seeds import generator
from solar.errors import SolarError
from solar.images import Photos, read_image
from solar.models import RetrievalNet
from solar.nn import GeM
from solar.nn.whitening import learned_whitening, pca_whitening
from solar.training.distributed import collect, part, share
from solar.training.loop import Trainer
from solar.training.objective import Terms
from solar.training.retrieval.frozen_front import TrainableNet
from solar.training.retrieval.loader import Loader, PhotoBatch
from solar.training.retrieval.parameter_groups import frozen_stages, parameter_groups
from solar.training.retrieval.recipe import PhotoRecipe
from solar.training.retrieval.start import (
    COMPUTED,
    LOCAL_WHITENING_PHOTOS,
    build_network,
    start_local_whitening,
)
from solar.training.retrieval.validate import Held, open_photos, validate

P = TypeVar("P", bound=PhotoRecipe)

Batch = tuple[PhotoBatch, Tensor]
"""Photos and their landmarks, (b, s) for groups of s photos."""


class PhotoTrainer(Trainer[P, Batch]):
    """A task defines the length of an epoch, its photos and the loss.

    Attributes:
        data: The photos to train on, as `read` opens them.
        landmarks: The landmark that each of them shows, (n,).
        glance: Side of the squares that `describe` takes, and photos at once.
        origin: Source of the initial weights of each part of the network.
        loader: Reads the photos.
    """

    several, watched, validates_first = True, True, True
    read: ClassVar[Callable[..., Places]]
    unit: ClassVar[str]
    """What a batch counts."""

    data: Places
    landmarks: Tensor
    glance: tuple[int, int]
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

    @abstractmethod
    def _order(self, epoch: int) -> Tensor:
        """The photos of an epoch (n, s), a group of s per row; steps take rows in turn."""

    @abstractmethod
    def _choices(self, order: Tensor, place: int) -> Sequence[int]:
        """The photo at a place of an epoch's n·s, and those that may stand in for it."""

    @abstractmethod
    def _first_photos(self) -> Tensor:
        """Photos to compute initial weights from; for "learn" two halves, which are pairs."""

    def prepare(self) -> None:
        """Open the photos and build the network."""
        recipe, processes = self.recipe, self.here.size
        self.data, self.held = open_photos(recipe, type(self).read)
        self.landmarks = torch.from_numpy(self.data.landmarks)
        self.glance = recipe.images.size, 32
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
        """Compute the weights that start from photos; log their origin, warn of odd settings."""
        if self.origin["backbone"] == "random" and not self.net.freeze_batch_norm:
            self.estimate_batch_norms()
        if self.origin["whitening"].startswith(COMPUTED):
            self.start_whitening()
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

    @torch.no_grad()
    def estimate_batch_norms(self) -> None:
        """Set the statistics of trained batch norms from half of the first photos.

        A backbone that starts at random has none, so that mining, validation and a computed
        whitening would use another network than the one that is trained. Every process does the
        same.
        """
        modules = self.trainable.modules()
        norms = [m for m in modules if isinstance(m, nn.BatchNorm2d) and m.training]
        kept = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # torch's way to ask for a plain mean over all batches
        numbers = self._first_photos().chunk(2)[0].tolist()
        for n, (_, pixels) in enumerate(self._squares(numbers, 0)):
            if n == 0 or len(pixels) == self.glance[1]:
                self.trainable([pixels])
        for norm, momentum in zip(norms, kept, strict=True):
            norm.momentum = momentum

    @torch.no_grad()
    def start_whitening(self) -> None:
        """Compute the whitening layer, or that of local descriptors, from the first photos.

        "learn", from pairs as in older networks, overfits unless there are several times as many
        pairs as dimensions; "pca" is better then. Rank 0's result counts.
        """
        net, photos = self.net.eval(), self._first_photos()
        if net.whiten is None:
            first = photos[:LOCAL_WHITENING_PHOTOS].tolist()
            start_local_whitening(net, self.loader.squares(first, self.recipe.images.size, (0,)))
            return
        layer, net.whiten = net.whiten, None
        rows, readable = (found.cpu() for found in self.describe(photos))
        net.whiten = layer
        if self.recipe.network.whitening_from == "learn":
            whitening = learned_whitening(rows, *torch.arange(len(rows)).chunk(2))
        else:
            whitening = pca_whitening(rows[readable])
        linear = whitening.linear(net.dim)
        layer.weight.copy_(share(linear.weight.to(layer.weight)))
        layer.bias.copy_(share(linear.bias.to(layer.bias)))

    @torch.no_grad()
    def describe(self, numbers: Tensor, epoch: int = 0) -> tuple[Tensor, Tensor]:
        """Describe random squares of photos at one scale, in all processes together.

        Returns (n, dim) descriptors, zero for unreadable photos, and a mask (n,) of readable ones.
        """
        mine, net = numbers[part(len(numbers))].tolist(), self.net
        dim = net.dim if net.whiten is not None else net.pooled_dim
        rows = torch.zeros(len(mine), dim, device=net.device)
        readable = torch.zeros(len(mine), dtype=torch.bool, device=net.device)
        for places, pixels in self._squares(mine, epoch):
            where = torch.tensor(places, device=net.device)
            rows[where] = self.trainable([pixels]).float()
            readable[where] = True
        return collect(rows), collect(readable)

    def _squares(self, numbers: list[int], epoch: int) -> Iterator[tuple[list[int], Tensor]]:
        """Squares of the readable photos in batches, with their places among the numbers."""
        size, batch = self.glance
        squares = self.loader.squares(numbers, size, (epoch,))
        readable = ((place, square) for place, square in enumerate(squares) if square is not None)
        while some := list(islice(readable, batch)):
            yield [n for n, _ in some], torch.from_numpy(np.stack([square for _, square in some]))

    def batches(self) -> Iterator[Batch]:
        """Go through the photos of every epoch; each process takes its share of each step."""
        while self.step < self.steps:
            epoch, position = divmod(self.step, self.steps_per_epoch)
            order = self._order(epoch)
            left = min(self.steps_per_epoch, position + self.steps - self.step)
            size, here = self.recipe.batch * order.shape[1], self.here
            own = size // here.size
            places = np.arange(position * size, left * size).reshape(-1, here.size, own)
            mine, choices = places[:, here.rank].ravel().tolist(), partial(self._choices, order)
            for photos, numbers in self.loader.batches(choices, mine, own, epoch):
                yield photos, self.landmarks[numbers].view(-1, order.shape[1]).to(self.device)

    def backward(self, batch: Batch) -> Terms:
        """Compute the gradients, in chunks if the recipe has them."""
        chunks = self.recipe.compute.grad_cache_chunks
        if chunks == 1:
            return super().backward(batch)
        photos, shown = batch
        pieces = [piece for group in photos.groups for piece in torch.chunk(group, chunks)]
        with torch.no_grad():
            found = [self.trainable([piece], self._chance(n)) for n, piece in enumerate(pieces)]
        rows = torch.cat(found).requires_grad_()
        terms = self._loss(rows[photos.order.to(self.device)], shown)
        torch.autograd.backward(terms["loss"])
        assert rows.grad is not None
        gradients = torch.split(rows.grad, [len(piece) for piece in pieces])
        for n, (piece, gradient) in enumerate(zip(pieces, gradients, strict=True)):
            # Processes exchange gradients once per step, after the last chunk.
            quiet = self.here.size > 1 and n + 1 < len(pieces)
            with self.model.no_sync() if quiet else nullcontext():  # type: ignore[operator]
                torch.autograd.backward(self.model([piece], self._chance(n)), gradient)
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


def contact_sheet(photos: Photos, tuples: Tensor) -> NDArray[np.uint8]:
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


def _thumbnail(photos: Photos, number: int) -> Image.Image:
    try:
        return ImageOps.fit(read_image(photos.read(number)), (92, 92))
    except SolarError:
        return Image.new("RGB", (92, 92), (226, 226, 230))
