"""The tuples of an epoch: queries, a positive for each, and negatives mined with the network."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor, nn

from solar.arrays import Pixels
from solar.datasets.labelled.sources import TrainingSet
from solar.datasets.labelled.training_set import PhotoList
from solar.errors import SolarError
from solar.images import read_image
from solar.nn.whitening import learned_whitening, pca_whitening
from solar.training.distributed import collect, part, share
from solar.training.retrieval.hard_negatives import Draw, draw_epoch, mine
from solar.training.retrieval.loader import Loader
from solar.training.retrieval.local_whitening import MOST, start_local_whitening
from solar.training.retrieval.recipe import RetrievalRecipe
from solar.training.retrieval.trainable import TrainableNet


class Miner:
    """Looks at training photos with the network as it is."""

    def __init__(
        self, data: TrainingSet, loader: Loader, trainable: TrainableNet, recipe: RetrievalRecipe
    ) -> None:
        self.data, self.loader, self.trainable, self.recipe = data, loader, trainable, recipe

    def draw(self, epoch: int) -> tuple[Draw, torch.Generator]:
        """Draw an epoch's queries, positives and pool; the generator goes on from there.

        As published, everything random in an epoch follows from the epoch's number.
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
        """Make the tuples of an epoch, the same in every process, each describing some photos.

        The network must be in evaluation mode. A SolarError as from `hard_negatives.mine`.

        Returns:
            (q, s) photos (query, positive, negatives); and the mean distance of the negatives and
            mean similarity within the pool, unless negatives are drawn without looking at them.
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
        # All ranks have the same rows, but not all GPUs need multiply them alike.
        chosen = share(chosen)
        distance = (queries[:, None] - pool[chosen]).norm(dim=2).mean()
        figures = {"negative_distance": float(distance), "pool_similarity": similarity(pool)}
        return drawn.tuples(chosen), figures

    @torch.no_grad()
    def describe(self, numbers: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Describe photos as mining does: random squares, one scale; shared among all processes.

        Returns:
            (n, dim) descriptors, zero for photos that cannot be read, and (n,) whether they can.
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
        """Start the whitening layer from the photos of the first epoch.

        "learn" makes pairs alike, as older networks do it; with fewer pairs than a few times the
        descriptor's length that learns them by heart, and "pca" is better.
        """
        net = self.trainable.net
        drawn, _ = self.draw(0)
        if net.whiten is None:  # that of local descriptors
            first = torch.cat(drawn[:2]).tolist()[:MOST]
            squares = self.loader.squares(first, self.recipe.images.size, (0,))
            start_local_whitening(net, squares)
            return
        layer, net.whiten = net.whiten, None
        try:
            both = [self.describe(rows, 0)[0] for rows in drawn[:2]]
        finally:
            net.whiten = layer
        pairs = torch.arange(len(both[0]))
        rows = torch.cat(both).cpu()
        if self.recipe.network.whitening_from == "learn":
            found = learned_whitening(rows, pairs, pairs + len(pairs))
        else:
            found = pca_whitening(rows)
        learnt = found.linear(net.dim)
        with torch.no_grad():
            layer.weight.copy_(share(learnt.weight.to(layer.weight)))
            layer.bias.copy_(share(learnt.bias.to(layer.bias)))

    @torch.no_grad()
    def estimate_batch_norms(self) -> None:
        """Give batch norms that follow their batches the statistics of the first epoch's queries.

        A backbone that starts at random has none, and mining, validation and a whitening layer
        computed from photos would see another network than the one that learns. Every process
        does the same.
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
    """Mean cosine of two different rows of unit length: near 1 when descriptors have collapsed."""
    n = len(rows)
    return float((rows.sum(0).square().sum() - n) / max(1, n * (n - 1)))


def _batched(
    squares: Iterator[Pixels | None], size: int
) -> Iterator[tuple[list[int], list[Pixels]]]:
    readable = ((place, square) for place, square in enumerate(squares) if square is not None)
    while some := list(islice(readable, size)):
        yield [place for place, _ in some], [square for _, square in some]


def contact_sheet(
    photos: PhotoList, tuples: Tensor, *, most: int = 8, cell: int = 96
) -> NDArray[np.uint8]:
    """Draw (q, s) tuples one below the other: query, positive (framed green), negatives (red).

    At most `most` of them, every photo in a cell of this side: (h, w, 3) bytes.
    """
    rows: Sequence[Sequence[int]] = tuples[:most].tolist()
    gap = max(2, cell // 24)
    high, wide = len(rows) * (cell + gap) + gap, len(rows[0]) * (cell + gap) + gap
    sheet = Image.new("RGB", (wide, high), (255, 255, 255))
    pen = ImageDraw.Draw(sheet)
    for y, row in enumerate(rows):
        for x, number in enumerate(row):
            place = gap + x * (cell + gap), gap + y * (cell + gap)
            colour = ((32, 32, 36), (0, 148, 108), (208, 68, 0))[min(x, 2)]
            frame: Any = (place[0] - gap, place[1] - gap, place[0] + cell, place[1] + cell)
            pen.rectangle(frame, fill=colour)
            sheet.paste(_thumbnail(photos, number, cell - gap), place)
    return np.asarray(sheet)


def _thumbnail(photos: PhotoList, number: int, side: int) -> Image.Image:
    try:
        image = read_image(photos.read(number))
    except SolarError:  # a picture for people needs no complaint
        return Image.new("RGB", (side, side), (226, 226, 230))
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    return image.crop((left, top, left + short, top + short)).resize((side, side))
