"""How photos are described for an index: here or on a cluster, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.describe.network import Network, network_of
from solar.describe.pipeline import Described, DescribingJob, Throughput
from solar.describe.prefetch import prefetched
from solar.describe.progress import Progress
from solar.describe.runtime import Describer, describer
from solar.describe.settings import Settings
from solar.errors import SolarError
from solar.images import Box, Photos
from solar.storage import segments
from solar.storage.types import DescriptorSpec

if TYPE_CHECKING:
    from solar.models import RetrievalNet


@dataclass(frozen=True)
class Describing:
    """A network with its settings, ready to run.

    Attributes:
        net: The network.
        job: How to describe; its photos are those that were known when it was prepared.
        describe: What computes here; None on a cluster.
        scheduler: Address of a Dask scheduler whose workers describe, `tcp://host:8786`.
        workers: Without a scheduler: start this many local Dask workers.
    """

    net: Network
    job: DescribingJob
    describe: Describer | None = None
    scheduler: str | None = None
    workers: int | None = None

    @classmethod
    def of(
        cls,
        net: Network | RetrievalNet,
        photos: Photos,
        *,
        boxes: Mapping[str, Box] | None = None,
        throughput: Throughput | None = None,
        scheduler: str | None = None,
        workers: int | None = None,
        **options: Any,
    ) -> Describing:
        """Prepare a network; options are fields of `solar.describe.Settings`."""
        net = network_of(net)
        chosen = Settings.of(net, **options)
        describe = None
        if scheduler is None and workers is None:
            describe = describer(net, chosen, photos)
            # What runs may not be what was asked for.
            chosen = chosen.fitted(options.get("mode"), describe.backend)
        elif chosen.backend not in ("auto", "torch"):
            raise SolarError("A Dask cluster runs models with torch: leave out `backend=`.")
        else:
            chosen = replace(chosen, backend="torch")
        job = DescribingJob(photos, chosen, dict(boxes or {}), throughput or Throughput())
        return cls(net, job, describe, scheduler, workers)

    @property
    def spec(self) -> DescriptorSpec:
        """How the embeddings are made."""
        made = self.job.settings.recorded(self.job.boxes)
        name = self.net.source or "a network in memory"
        return DescriptorSpec(self.net.facts.dim, name, self.net.fingerprint, made)

    def run(
        self,
        photos: Photos,
        rows: int,
        incoming: tuple[Path, str] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Described]:
        """Describe photos in pieces of so many `rows`.

        Workers of a cluster write embeddings to the folder `incoming`, as files that end so, or
        send them if that is None.
        """
        job = replace(self.job, photos=photos)
        numbers = range(len(photos))
        pieces = [numbers[first : first + rows] for first in range(0, len(photos), rows)]
        if self.describe is not None:
            found = job.run(pieces, self.describe, progress)
            # A GPU works on while a piece is written.
            yield from prefetched(found, 1) if self.describe.device.type == "cuda" else found
            return
        from solar.describe.cluster import describe_on_cluster

        writing = None
        if incoming is not None:
            place, suffix = incoming
            writing = place.absolute(), partial(segments.write, suffix=suffix)
        yield from describe_on_cluster(
            job, pieces, self.net.net, writing, self.scheduler, self.workers, progress
        )
