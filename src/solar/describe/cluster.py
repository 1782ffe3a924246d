"""The same extraction on a Dask cluster: a shard is a task, the store is shared."""

from dataclasses import replace
from typing import TYPE_CHECKING

from solar.describe.counting import Progress, expect
from solar.describe.pipeline import (
    Describer,
    ExtractionJob,
    Settings,
    describer,
)
from solar.describe.store import Store
from solar.errors import SolarError
from solar.models import RetrievalNet, fingerprint

if TYPE_CHECKING:
    from distributed import Client

# A task that was on a worker when it died runs again elsewhere, up to this many times.
RETRIES = 5
TIMEOUT = 10  # seconds that a scheduler has to answer


def run_on_cluster(
    job: ExtractionJob,
    store: Store,
    net: RetrievalNet,
    scheduler: str | None,
    workers: int | None,
    progress: Progress | None = None,
) -> None:
    """Describe all shards that a store still lacks on the workers of a cluster.

    Every worker must see the photos and the store under the same paths, and have this package
    installed. It gets the network once. A worker that is lost costs only the shards it was at.
    Without the address of a scheduler, so many workers are started here. `progress` is called after
    every shard. A SolarError if Dask is not installed, or the scheduler cannot be reached.
    """
    try:
        from distributed import as_completed
    except ImportError:
        raise SolarError('A cluster needs Dask: pip install "solar-retrieval[dask]".') from None

    pending = store.pending()
    expect(progress, sum(len(store.source(shard)) for shard in pending))
    with _client(scheduler, workers) as client:
        network = client.scatter(net.cpu().eval(), broadcast=True)
        digest = fingerprint(net)
        arguments = ((_part(job, store, shard), store, shard, network, digest) for shard in pending)
        tasks = [
            client.submit(_describe_shard, *one, retries=RETRIES, pure=False) for one in arguments
        ]
        for task in as_completed(tasks):
            described, failed = task.result()
            if progress:
                progress(described, failed)


def _client(scheduler: str | None, workers: int | None) -> "Client":
    from distributed import Client

    if scheduler is None:
        # Worker processes of our own: one network each, so threads would only share its locks.
        return Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    try:
        return Client(scheduler, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise SolarError(
            f"No Dask scheduler answers at {scheduler}: start one with `dask scheduler`."
        ) from error


def _part(job: ExtractionJob, store: Store, shard: int) -> ExtractionJob:
    """The piece of a job that one shard needs, so that a task stays small."""
    photos = job.photos.select(job.numbers(store, shard))
    boxes = {name: job.boxes[name] for name in photos.names if name in job.boxes}
    return replace(job, photos=photos, boxes=boxes)


def _describe_shard(
    job: ExtractionJob, store: Store, shard: int, net: RetrievalNet, digest: str
) -> tuple[int, int]:
    """One task, on a worker: decode, describe and write a shard; return what came of it."""
    numbers = range(len(job.photos))
    describe = _describer(net, digest, job.settings)
    described = job.describe(numbers, map(job.decode, numbers), describe)
    store.write_shard(shard, *described)
    return len(described.names), len(described.failures)


_prepared: dict[tuple[str, Settings], Describer] = {}


def _describer(net: RetrievalNet, digest: str, settings: Settings) -> Describer:
    """The network ready to run, prepared once per worker: it comes anew with every task."""
    if (digest, settings) not in _prepared:
        _prepared.clear()
        _prepared[digest, settings] = describer(net, settings)
    return _prepared[digest, settings]
