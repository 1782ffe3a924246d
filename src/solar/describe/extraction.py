"""A folder, a list or tar shards become a store of descriptors, here or on a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from solar.describe.pipeline import ExtractionJob, Progress, Settings, Throughput, describer
from solar.describe.store import Store, lock
from solar.errors import SolarError
from solar.images import Box, Photos, find_photos
from solar.models import RetrievalNet, fingerprint, retrieval_model
from solar.weights import DEFAULT


def extract(
    source: str | Path | Sequence[str | Path] | Photos,
    destination: str | Path,
    *,
    model: RetrievalNet | str | Path = DEFAULT,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    boxes: Mapping[str, Box] | None = None,
    orient: bool = True,
    mode: Literal["exact", "fast"] = "exact",
    dtype: Literal["float32", "float16"] = "float32",
    shard_size: int = 1024,
    device: str | None = None,
    backend: str = "torch",
    pace: Throughput | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Store:
    """Describe every photo of a source; go on where an earlier run stopped.

    Args:
        source: What `solar.images.find_photos` takes, or what it gave.
        destination: The store's folder. One that is there is continued, and refused if it was made
            with another model, other settings or other photos.
        model: A retrieval network, or what `solar.load` takes; default: solar-r18.
        size: Longest side; default: the model's.
        scales: Default: the model's.
        boxes: For some photos by name, the part to describe, in pixels of the upright photo.
        orient: Obey EXIF orientation.
        mode: "fast" decodes large JPEGs at a fraction of their size.
        dtype: Of the stored vectors.
        shard_size: Photos a shard: what a kill can cost.
        device: Where the network runs, "cpu" or "cuda"; default: where it is.
        backend: Another engine for a CPU, "openvino" for example; used only where it is seen to
            work, and recorded in the store as what it came to be. int8 takes its ranges from the
            source's first photos.
        pace: How to work.
        scheduler: Address of a Dask scheduler whose workers do it, `tcp://host:8786`.
        workers: Without a scheduler: start this many local Dask workers. Default: none, describe
            in this process.
        progress: Called after every shard or batch.

    Returns:
        The finished store. Photos that could not be read are in its `failures`.

    Raises:
        SolarError: Nothing to describe, a store that does not fit, a full disk.
    """
    photos = source if isinstance(source, Photos) else find_photos(source)
    net = retrieval_model(model)
    settings = Settings.of(
        net, size=size, scales=scales, device=device, orient=orient, mode=mode, backend=backend
    )
    job = ExtractionJob(photos, settings, dict(boxes or {}), pace or Throughput())
    here = scheduler is None and workers is None
    if not here and backend != "torch":
        raise SolarError("A cluster describes with torch: leave --backend out.")
    describe = describer(net, settings, photos) if here else None
    if describe is not None:  # what runs may not be what was asked for
        job = replace(job, settings=replace(settings, backend=describe.backend))
    with lock(destination):
        store = Store.create(
            destination,
            photos.names,
            model=net.source or "a network in memory",
            fingerprint=fingerprint(net),
            settings=job.settings.recorded(job.boxes),
            dim=net.dim,
            dtype=dtype,
            shard_size=shard_size,
        )
        if describe is not None:
            job.run(store, describe, progress)
        else:
            from solar.describe.cluster import run_on_cluster

            run_on_cluster(job, store, net, scheduler, workers, progress)
        return Store.open(destination)
