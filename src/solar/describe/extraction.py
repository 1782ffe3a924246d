"""A folder, a list or tar shards become a store of descriptors, here or on a cluster.

Several networks that differ only after the backbone share one pass: `extract_together`.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from solar.arrays import Floats
from solar.defaults import SHARD_SIZE
from solar.describe.fast_net import FusedNet
from solar.describe.pipeline import ExtractionJob, Throughput, describer
from solar.describe.progress import Progress
from solar.describe.settings import Settings
from solar.describe.store import Store, lock
from solar.describe.store_files import is_store, read_manifest
from solar.errors import SolarError
from solar.images import Box, Photos, Stamp, find_photos
from solar.images.known_roots import confirm
from solar.models import RetrievalNet, fingerprint, retrieval_model
from solar.weights import DEFAULT


def extract(
    source: str | Path | Sequence[str | Path] | Photos,
    destination: str | Path,
    *,
    model: RetrievalNet | str | Path = DEFAULT,
    boxes: Mapping[str, Box] | None = None,
    throughput: Throughput | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Store:
    """Compute the embeddings of all photos of a source; continue an interrupted run.

    Args:
        source: What `solar.images.find_photos` takes, or what it gave.
        destination: The store's folder. An existing store is updated: new and changed photos are
            described, deleted ones removed, and all others keep their vectors, even if they were
            moved or renamed. A store made with another model or other settings is rejected.
        model: A retrieval network, or what `solar.load` takes; default: solar-r18.
        boxes: For some photos by name, the part to describe, in pixels of the upright photo.
        throughput: How to work.
        scheduler: Address of a Dask scheduler whose workers do it, `tcp://host:8786`.
        workers: Without a scheduler: start this many local Dask workers. Default: none, describe
            in this process.
        progress: Called after every shard or batch.
        **options: How to describe: fields of `solar.describe.Settings`: `size`, `scales`, `orient`,
            `mode`, `device`, `backend`, `max_pixels` (if given, photos skipped before are tried
            again); the store records what was used. How to store: `dtype` ("float32" or "float16")
            and `shard_size` (photos per shard, which is what an interruption can cost).

    Returns:
        The finished store. Photos that could not be read are in its `failures`.

    Raises:
        SolarError: Nothing to describe, a store that does not fit, a full disk.
    """
    photos = source if isinstance(source, Photos) else find_photos(source)
    net = retrieval_model(model)
    dtype, shard_size = options.pop("dtype", "float32"), options.pop("shard_size", None)
    begun = read_manifest(Path(destination)) if is_store(destination) else None
    if shard_size is None:  # how a store is cut changes nothing in it
        shard_size = SHARD_SIZE if begun is None else begun.shard_size
    chosen = Settings.of(net, **options)
    here = scheduler is None and workers is None
    if not here and chosen.backend != "torch":
        raise SolarError("A Dask cluster runs models with torch: leave out `backend=`.")
    describe = describer(net, chosen, photos) if here else None
    if describe is not None:  # what runs may not be what was asked for
        mode = options.get("mode")
        if begun is not None and begun.settings.get("mode") == "fast":
            mode = "exact"  # by Pillow, as the store was begun
        chosen = chosen.fitted(mode, describe.backend)
    job = ExtractionJob(photos, chosen, dict(boxes or {}), throughput or Throughput())
    with lock(destination):
        store = Store.create(
            destination,
            photos,
            model=net.source or "a network in memory",
            fingerprint=fingerprint(net),
            settings=chosen.recorded(job.boxes),
            dim=net.dim,
            dtype=dtype,
            shard_size=shard_size,
            retry=options.get("max_pixels") is not None,
        )
        if describe is not None:
            job.run(store, describe, progress)
        else:
            from solar.describe.cluster import run_on_cluster

            run_on_cluster(job, store, net, scheduler, workers, progress)
        if not isinstance(source, Photos):  # these may come from the roots of an untrusted index
            confirm(destination, photos.roots)
        return Store.open(destination)


class SharedBackbone(FusedNet):
    """Several networks with one backbone: their descriptors side by side, (b, networks · dim)."""

    def __init__(
        self,
        nets: Sequence[RetrievalNet],
        *,
        scales: Sequence[float],
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(nets[0], scales=scales, dtype=dtype)
        self.heads = list(nets)

    def _describe(self, pixels: Tensor) -> Tensor:
        maps = [self.net.backbone(images) for images in self.inputs(pixels)]
        each = [head.average([head.head(features) for features in maps]) for head in self.heads]
        return torch.cat([_finite(rows) for rows in each], dim=1)


def _finite(rows: Tensor) -> Tensor:
    """Descriptors that left the range of float32 become zeros: photos that are ranked last."""
    return torch.where(rows.isfinite().all(dim=1, keepdim=True), rows, torch.zeros_like(rows))


def extract_together(
    photos: Photos,
    destinations: Sequence[Path],
    nets: Sequence[RetrievalNet],
    *,
    boxes: Mapping[str, Box] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Store]:
    """Make for each network the store that `extract` would, in one pass over the photos.

    The networks share the backbone of the first, on its device. Existing stores are finished or
    kept. A descriptor that is not finite, which `extract` refuses, is stored as zeros. Options are
    fields of `solar.describe.Settings`. A SolarError if a store does not fit, or the disk is full.
    """
    settings = Settings.of(nets[0], **options)
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
            together = SharedBackbone(nets, scales=settings.scales, dtype=settings.dtype)
            job.run(shards, together, progress)
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
