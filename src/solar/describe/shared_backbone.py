"""Describing with several networks that differ only after the backbone: it runs once for all."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from solar.arrays import Floats
from solar.describe.fast_net import FusedNet
from solar.describe.pipeline import ExtractionJob, Throughput
from solar.describe.progress import Progress
from solar.describe.settings import Settings
from solar.describe.store import Store
from solar.describe.store_lock import lock
from solar.images import Box, Photos, Stamp
from solar.models import RetrievalNet, fingerprint


class SharedBackbone(FusedNet):
    """Several networks with one backbone: their descriptors side by side, (b, networks · dim)."""

    def __init__(self, nets: Sequence[RetrievalNet], *, scales: Sequence[float]) -> None:
        super().__init__(nets[0], scales=scales)
        self.heads = list(nets)

    def _describe(self, pixels: Tensor) -> Tensor:
        maps = [self.net.backbone(images) for images in self.inputs(pixels)]
        each = [head.average([head.head(features) for features in maps]) for head in self.heads]
        return torch.cat([_finite(rows) for rows in each], dim=1)


def _finite(rows: Tensor) -> Tensor:
    """Descriptors that left the range of float32 become zeros: photos that are found nowhere."""
    return torch.where(rows.isfinite().all(dim=1, keepdim=True), rows, torch.zeros_like(rows))


def extract_together(
    photos: Photos,
    destinations: Sequence[Path],
    nets: Sequence[RetrievalNet],
    *,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    boxes: Mapping[str, Box] | None = None,
    progress: Progress | None = None,
) -> list[Store]:
    """Make for each network the store that `extract` would, in one pass over the photos.

    The networks share the backbone of the first, on its device. Each has a destination; stores that
    are there already are finished or kept. A descriptor that is not finite, which `extract`
    refuses, is stored as zeros. A SolarError if a store does not fit, or the disk is full.
    """
    settings = Settings.of(nets[0], size=size, scales=scales)
    job = ExtractionJob(photos, settings, dict(boxes or {}), Throughput())
    with ExitStack() as locks:
        for place in destinations:
            locks.enter_context(lock(place))
        stores = [
            Store.create(
                place,
                photos.names,
                model="a network in memory",
                fingerprint=fingerprint(net),
                settings=settings.recorded(job.boxes),
                dim=net.dim,
            )
            for place, net in zip(destinations, nets, strict=True)
        ]
        shards = _SideBySide(stores)
        if shards.pending():
            job.run(shards, SharedBackbone(nets, scales=settings.scales), progress)
    return [Store.open(place) for place in destinations]


class _SideBySide:
    """Stores of the same photos, written together from rows that lie side by side."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores
        self.shard_size = stores[0].shard_size

    def pending(self) -> list[int]:
        """The shards that any of the stores lacks."""
        return sorted({shard for store in self.stores for shard in store.pending()})

    def source(self, shard: int) -> list[str]:
        return self.stores[0].source(shard)

    def write_shard(
        self,
        shard: int,
        vectors: Sequence[Floats],
        names: Sequence[str],
        sizes: Sequence[tuple[int, int]],
        failures: Mapping[str, str],
        stamps: Mapping[str, Stamp],
    ) -> None:
        wide = np.reshape(vectors, (len(names), len(self.stores), -1))
        for number, store in enumerate(self.stores):
            store.write_shard(shard, wide[:, number], names, sizes, failures, stamps)
