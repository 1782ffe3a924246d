"""A folder, a list or tar shards become a store of descriptors, here or on a cluster."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from solar.defaults import SHARD_SIZE
from solar.describe.pipeline import (
    ExtractionJob,
    Throughput,
    describer,
)
from solar.describe.progress import Progress
from solar.describe.settings import Settings
from solar.describe.store import Store
from solar.describe.store_files import is_store, read_manifest
from solar.describe.store_lock import lock
from solar.errors import SolarError
from solar.images import Box, Photos, find_sources
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
        source: What `solar.images.find_sources` takes, or what it gave.
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
    photos = source if isinstance(source, Photos) else find_sources(source)
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
            mode = "exact"  # by Pillow: a store that was begun so goes on so
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
        if not isinstance(source, Photos):  # which may come from the roots of somebody's index
            confirm(destination, photos.roots)
        return Store.open(destination)
