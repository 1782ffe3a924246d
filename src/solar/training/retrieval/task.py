"""Training with tuples and mined negatives, as in the paper."""

import torch
from torch import Tensor

from solar.datasets.labelled.sources import read_training_set
from solar.datasets.labelled.training_set import TrainingSet
from solar.errors import SolarError
from solar.training.distributed import collect, gather, share
from solar.training.objective import CollapseMonitor, Terms, objective
from solar.training.retrieval.hard_negatives import Draw, draw_epoch, mine
from solar.training.retrieval.photo_trainer import PhotoTrainer, contact_sheet
from solar.training.retrieval.recipe import RetrievalRecipe
from solar.training.run import State


class RetrievalTrainer(PhotoTrainer[RetrievalRecipe]):
    """A run of `task: retrieval`; a batch is whole tuples, and the landmarks (tuples, photos)."""

    recipe_class, read, unit = RetrievalRecipe, read_training_set, "tuples"
    data: TrainingSet
    tuples: Tensor | None = None  # (q, s) photos of an epoch, once they are mined

    def prepare(self) -> None:
        """Open the photos and build the network."""
        super().prepare()
        self.glance = self.recipe.mining_size, self.recipe.mining.batch
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

    def _first_photos(self) -> Tensor:
        queries, positives, _ = self.draw(0)[0]
        return torch.cat([queries, positives])

    def _order(self, epoch: int) -> Tensor:
        if self.tuples is None or not self.step % self.steps_per_epoch:
            self.tuples = self._mined(epoch)
        return self.tuples

    def _choices(self, order: Tensor, place: int) -> list[int]:
        """Query and positive stand in for each other, and so do the negatives."""
        row, n = divmod(place, order.shape[1])
        numbers = order[row].tolist()
        return [numbers[n], *(numbers[:2] if n < 2 else numbers[2:])]

    def _mined(self, epoch: int) -> Tensor:
        torch.manual_seed(self.recipe.seed + epoch)
        self.bar.say(f"Mining for epoch {epoch + 1}")
        self.net.eval()
        tuples, figures = self.mine(epoch)
        self.net.train()
        if self.here.leads:
            self.run.log(self.step, epoch=epoch, **figures)
            self.run.image(self.step, "tuples", contact_sheet(self.data.photos, tuples))
        return tuples

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
            self.landmarks[drawn.queries].to(queries.device),
            pool,
            self.landmarks[drawn.pool].to(queries.device),
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

    def _loss(self, rows: Tensor, shown: Tensor) -> Terms:
        return objective(gather(rows), collect(shown), self.recipe.loss)

    def extra_state(self) -> State:
        """The tuples of an unfinished epoch."""
        return {"tuples": self.tuples if self.step % self.steps_per_epoch else None}

    def load_extra(self, state: State) -> None:
        """Load those tuples."""
        self.tuples = state["tuples"]


def similarity(rows: Tensor) -> float:
    """Mean cosine of two different unit rows: near 1 when embeddings have collapsed."""
    n = len(rows)
    return float((rows.sum(0).square().sum() - n) / max(1, n * (n - 1)))
