"""The same on a Dask cluster: a piece of photos is a task."""

import logging
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from solar import __version__
from solar.arrays import Floats, Vectors
from solar.describe.pipeline import Described, DescribingJob, as_input, as_rows
from solar.describe.progress import Progress, counted
from solar.describe.runtime import Describer, describer
from solar.describe.settings import Settings
from solar.errors import SolarError
from solar.models import RetrievalNet, fingerprint

if TYPE_CHECKING:
    from distributed import Client

# A task that was on a worker when it died runs again elsewhere, up to this many times.
RETRIES = 5
_AHEAD = 1024  # tasks that a scheduler knows of at a time
TIMEOUT = 10  # seconds that a scheduler has to answer, and to have a worker
# Processors round differently; another network is far away.
_ALIKE = 0.999


Writing: TypeAlias = tuple[Path, Callable[[Vectors, Path], tuple[str, int]]]
"""The folder to which workers write embeddings (n, dim), for one process to take, and what writes
them there; it returns their digest."""


def describe_on_cluster(
    job: DescribingJob,
    pieces: Sequence[Sequence[int]],
    net: RetrievalNet,
    writing: Writing | None,
    scheduler: str | None,
    workers: int | None,
    progress: Progress | None = None,
) -> Iterator[Described]:
    """Describe pieces of photos on the workers of a cluster; they come as they are ready.

    Every worker must see the photos under the same paths, and the folder of `writing`; without it,
    embeddings are sent. A lost worker costs only the pieces it was at. Without the address of a
    scheduler, `workers` are started here. A SolarError if Dask is not installed, the scheduler
    cannot be reached, the cluster is lost, or a worker does not see the folder.
    """
    try:
        from distributed import as_completed
    except ImportError:
        raise SolarError('A cluster needs Dask: pip install "solar-retrieval[dask]".') from None

    advance = counted(progress, "Describing", sum(map(len, pieces)))
    proof = Proof.of(net, job.settings)
    with _quiet(), _explained(scheduler), _client(scheduler, workers) as client:
        client.wait_for_workers(1, timeout=TIMEOUT)
        network = client.scatter(net.cpu().eval(), broadcast=True)
        waiting = iter(pieces)

        def submitted() -> Iterator[Any]:
            for piece in waiting:
                photos = job.photos.select(piece)
                boxes = {name: job.boxes[name] for name in photos.names if name in job.boxes}
                task = replace(job, photos=photos, boxes=boxes), writing, network, proof
                yield client.submit(_describe_piece, *task, retries=RETRIES, pure=False)

        # Results wait on the workers: a bounded number, whatever the number of photos.
        tasks = submitted()
        running = as_completed(list(islice(tasks, _AHEAD)))
        for task in running:
            described: Described = task.result()
            running.update(list(islice(tasks, 1)))
            advance(len(described.names) + len(described.failures))
            yield described


@dataclass(frozen=True)
class Proof:
    """What every worker must agree with before it writes anything."""

    version: str
    fingerprint: str
    vector: Floats  # of a photo that needs no file

    @classmethod
    def of(cls, net: RetrievalNet, settings: Settings) -> "Proof":
        """The proof of this process."""
        return cls(__version__, fingerprint(net), _probe(describer(net, settings)))

    def check(self, describe: Describer) -> None:
        """Raise a SolarError if this process would write other vectors."""
        if __version__ != self.version:
            raise SolarError(
                f"A worker runs solar {__version__}, but this is {self.version}: install the same."
            )
        near = float(_probe(describe) @ self.vector)
        if not near > _ALIKE:
            raise SolarError(
                f"A worker computes another embedding of the same photo (similarity {near:.4f}): "
                "install the same versions of torch and solar there."
            )


def _probe(describe: Describer) -> Floats:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (96, 128, 3), dtype=np.uint8)
    vector: Floats = as_rows(describe(as_input([pixels], describe)))[0]
    return vector


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's own log, which reports lost connections as tracebacks."""
    import distributed.client  # noqa: F401 (after which the levels are set)

    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    before = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


@contextmanager
def _explained(scheduler: str | None) -> Iterator[None]:
    from distributed import KilledWorker, TimeoutError
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    where = scheduler or "of this machine"
    try:
        yield
    except TimeoutError as error:
        raise SolarError(
            f"The Dask scheduler {where} has no workers: start some with `dask worker`."
        ) from error
    except KilledWorker as error:
        raise SolarError(
            f"Workers of {where} keep dying on the same photos ({error}): give them more memory, "
            "and run the same command again."
        ) from error
    except (CommClosedError, FutureCancelledError) as error:
        raise SolarError(
            f"The cluster {where} has lost its scheduler or all its workers; what is finished is "
            "kept: start them, and run the same command again."
        ) from error


def _client(scheduler: str | None, workers: int | None) -> "Client":
    from distributed import Client

    if scheduler is None:
        # Worker processes of our own: one network each, so threads would only share its locks.
        known = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
        return Client(n_workers=workers, threads_per_worker=1, **known)
    try:
        return Client(scheduler, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise SolarError(
            f"No Dask scheduler answers at {scheduler}: start one with `dask scheduler`."
        ) from error


def _describe_piece(
    job: DescribingJob, writing: Writing | None, net: RetrievalNet, proof: Proof
) -> Described:
    """One task, on a worker: decode and describe a piece, and write its embeddings."""
    if writing is not None and not writing[0].is_dir():
        raise SolarError(
            f"A worker on {platform.node()} does not see the folder {writing[0]}: let all "
            "workers see it under the same path, and run the same command again."
        )
    numbers = range(len(job.photos))
    describe = _describer(net, proof, job.settings)
    [described] = job.described([numbers], map(job.decode, numbers), describe)
    if writing is None or isinstance(described.vectors, str) or not described.names:
        return described
    place, write = writing
    return replace(described, vectors=write(described.vectors, place)[0])


_prepared: dict[tuple[str, Settings], Describer] = {}


def _describer(net: RetrievalNet, proof: Proof, settings: Settings) -> Describer:
    """The network ready to run, prepared and tried once per worker."""
    key = proof.fingerprint, settings
    if key not in _prepared:
        _prepared.clear()
        describe = describer(net, settings)
        proof.check(describe)
        _prepared[key] = describe
    return _prepared[key]
