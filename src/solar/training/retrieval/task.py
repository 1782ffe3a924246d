"""Training with tuples and mined negatives, as in the paper."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from solar.arrays import Pixels
from solar.datasets.labelled.sources import read_training_set
from solar.datasets.labelled.training_set import TrainingSet
from solar.errors import SolarError
from solar.nn.whitening import Whitening, learned_whitening, pca_whitening
from solar.training.distributed import collect, gather, part, share
from solar.training.objective import CollapseMonitor, Terms, objective
from solar.training.retrieval.frozen_front import TrainableNet
from solar.training.retrieval.hard_negatives import Draw, draw_epoch, mine
from solar.training.retrieval.loader import Loader
from solar.training.retrieval.photo_trainer import Batch, PhotoTrainer, contact_sheet
from solar.training.retrieval.recipe import RetrievalRecipe
from solar.training.retrieval.start import COMPUTED, LOCAL_WHITENING_PHOTOS, compute_whitening
from solar.training.run import State


class RetrievalTrainer(PhotoTrainer[RetrievalRecipe]):
    """A run of `task: retrieval`; a batch is whole tuples, and the landmarks (tuples, photos)."""

    recipe_class, read, unit = RetrievalRecipe, read_training_set, "tuples"
    data: TrainingSet
    tuples: Tensor | None = None  # (q, s) photos of an epoch, once they are mined

    def prepare(self) -> None:
        """Open the photos and build the network."""
        super().prepare()
        self.monitor = CollapseMonitor(self.recipe.loss, stop=self.recipe.stop_on_collapse)

    def _steps_per_epoch(self) -> int:
        others, negatives = len(self.data.labels) - 1, self.recipe.mining.negatives
        if others < negatives:  # mining would notice only after the run has begun
            raise SolarError(
                f"There {'are' if others != 1 else 'is'} only {others} other landmark"
                f"{'s' * (others != 1)}, but {negatives} negatives are asked for: set "
                f"mining.negatives={others}, or add landmarks."
            )
        known, asked, batch = len(self.data.queries), self.recipe.mining.queries, self.recipe.batch
        if known < batch:
            raise SolarError(
                f"Only {known} photos have a positive (same landmark), but a batch needs {batch}: "
                f"set batch={known} or less, or add photos."
            )
        if asked < batch:
            raise SolarError(
                f"An epoch takes mining.queries={asked} queries, but a batch needs {batch}: "
                "raise mining.queries, or lower batch."
            )
        return min(known, asked) // batch

    def ready(self) -> None:
        """Make the miner, too."""
        super().ready()
        self.miner = Miner(self.data, self.loader, self.trainable, self.recipe)

    def begin(self) -> None:
        """Compute the weights that start from photos."""
        if self.origin["backbone"] == "random" and not self.net.freeze_batch_norm:
            self.miner.estimate_batch_norms()
        if self.origin["whitening"].startswith(COMPUTED):
            self.net.eval()
            self.miner.learn_whitening()
        super().begin()

    def batches(self) -> Iterator[Batch]:
        """Mine the tuples of an epoch; every process takes its share of each step."""
        batch, size = self.recipe.batch, self.recipe.batch // self.here.size
        while self.step < self.steps:
            epoch, position = divmod(self.step, self.steps_per_epoch)
            if self.tuples is None or position == 0:
                self.tuples = self._mined(epoch)
            left = min(self.steps_per_epoch, position + self.steps - self.step)
            firsts = [n * batch + self.here.rank * size for n in range(position, left)]
            numbers = [first + n for first in firsts for n in range(size)]
            landmarks = torch.from_numpy(self.data.landmarks)[self.tuples].to(self.device)
            read = self.loader.batches(self.tuples, numbers, size, epoch)
            for first, photos in zip(firsts, read, strict=True):
                yield photos, landmarks[first : first + size]

    def _mined(self, epoch: int) -> Tensor:
        torch.manual_seed(self.recipe.seed + epoch)
        self.bar.say(f"Mining for epoch {epoch + 1}")
        self.net.eval()
        tuples, figures = self.miner.mine(epoch)
        self.net.train()
        if self.here.leads:
            self.run.log(self.step, epoch=epoch, **figures)
            self.run.image(self.step, "tuples", contact_sheet(self.data.photos, tuples))
        return tuples

    def _loss(self, rows: Tensor, shown: Tensor) -> Terms:
        return objective(gather(rows), collect(shown), self.recipe.loss)

    def extra_state(self) -> State:
        """The tuples of an unfinished epoch."""
        return {"tuples": self.tuples if self.step % self.steps_per_epoch else None}

    def load_extra(self, state: State) -> None:
        """Load those tuples."""
        self.tuples = state["tuples"]


class Miner:
    """Mines the tuples of an epoch with the current network."""

    def __init__(
        self, data: TrainingSet, loader: Loader, trainable: TrainableNet, recipe: RetrievalRecipe
    ) -> None:
        self.data, self.loader, self.trainable, self.recipe = data, loader, trainable, recipe

    def draw(self, epoch: int) -> tuple[Draw, torch.Generator]:
        """Draw an epoch's queries, positives and pool; also returns the generator.

        As published, the seed and the epoch's number decide everything random in an epoch.
        """
        generator = torch.Generator().manual_seed(self.recipe.seed + epoch)
        drawn = draw_epoch(
            self.data.queries,
            self.data.positives,
            len(self.data),
            query_count=self.recipe.mining.queries,
            pool_size=self.recipe.mining.pool,
            generator=generator,
        )
        return drawn, generator

    def mine(self, epoch: int) -> tuple[Tensor, dict[str, float]]:
        """The tuples (q, s) of an epoch: query, positive, negatives; the same in every process.

        The network must be in evaluation mode. Also returns the mean distance of the negatives and
        the mean similarity within the pool, unless the style needs no descriptors.
        """
        settings = self.recipe.mining
        drawn, generator = self.draw(epoch)
        landmarks = torch.from_numpy(self.data.landmarks)
        unseen = settings.style == "random" and not settings.min_distance
        positives = None
        if unseen:
            queries, pool = torch.zeros(len(drawn.queries), 1), torch.zeros(len(drawn.pool), 1)
        else:
            queries, _ = self.describe(drawn.queries, epoch)
            pool, readable = self.describe(drawn.pool, epoch)
            if settings.style == "semi-hard":
                positives, _ = self.describe(drawn.positives, epoch)
            drawn, pool = drawn._replace(pool=drawn.pool[readable.cpu()]), pool[readable]
        chosen = mine(
            queries,
            landmarks[drawn.queries].to(queries.device),
            pool,
            landmarks[drawn.pool].to(queries.device),
            negatives=settings.negatives,
            style=settings.style,
            positives=positives,
            min_distance=settings.min_distance,
            generator=generator,
        )
        if unseen:
            return drawn.tuples(chosen), {}
        # GPUs may round differently, so rank 0 decides.
        chosen = share(chosen)
        distance = (queries[:, None] - pool[chosen]).norm(dim=2).mean()
        figures = {"negative_distance": float(distance), "pool_similarity": similarity(pool)}
        return drawn.tuples(chosen), figures

    @torch.no_grad()
    def describe(self, numbers: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Describe random squares of photos at one scale, in all processes together.

        Returns (n, dim) descriptors, zero for unreadable photos, and a mask (n,) of readable ones.
        """
        mine = numbers[part(len(numbers))].tolist()
        squares = self.loader.squares(mine, self.recipe.mining_size, (epoch,))
        net = self.trainable.net
        dim = net.dim if net.whiten is not None else net.pooled_dim
        rows = torch.zeros(len(mine), dim, device=net.device)
        readable = torch.zeros(len(mine), dtype=torch.bool, device=net.device)
        for places, pixels in _batched(squares, self.recipe.mining.batch):
            where = torch.tensor(places, device=net.device)
            rows[where] = self.trainable([torch.from_numpy(np.stack(pixels))]).float()
            readable[where] = True
        return collect(rows), collect(readable)

    def learn_whitening(self) -> None:
        """Compute the whitening layer from the photos of the first epoch.

        "learn", from pairs as in older networks, overfits unless there are several times as many
        pairs as dimensions; "pca" is better then.
        """
        queries, positives, _ = self.draw(0)[0]
        first = torch.cat([queries, positives])[:LOCAL_WHITENING_PHOTOS].tolist()
        squares = self.loader.squares(first, self.recipe.images.size, (0,))

        def fit() -> Whitening:
            rows = torch.cat([self.describe(photos, 0)[0] for photos in (queries, positives)]).cpu()
            if self.recipe.network.whitening_from != "learn":
                return pca_whitening(rows)
            pairs = torch.arange(len(queries))
            return learned_whitening(rows, pairs, pairs + len(pairs))

        compute_whitening(self.trainable.net, squares, fit)

    @torch.no_grad()
    def estimate_batch_norms(self) -> None:
        """Set the statistics of trained batch norms from the first epoch's queries.

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
        size, queries = self.recipe.mining.batch, self.draw(0)[0].queries.tolist()
        squares = self.loader.squares(queries, self.recipe.mining_size, (0,))
        for n, (_, pixels) in enumerate(_batched(squares, size)):
            if n == 0 or len(pixels) == size:
                self.trainable([torch.from_numpy(np.stack(pixels))])
        for norm, momentum in zip(norms, kept, strict=True):
            norm.momentum = momentum


def similarity(rows: Tensor) -> float:
    """Mean cosine of two different unit rows: near 1 when embeddings have collapsed."""
    n = len(rows)
    return float((rows.sum(0).square().sum() - n) / max(1, n * (n - 1)))


def _batched(
    squares: Iterator[Pixels | None], size: int
) -> Iterator[tuple[list[int], list[Pixels]]]:
    readable = ((place, square) for place, square in enumerate(squares) if square is not None)
    while some := list(islice(readable, size)):
        yield [place for place, _ in some], [square for _, square in some]
