"""Looking closer: attention of a photo, matches of two, a map of all; made once, and kept."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from solar.images import Box
from solar.index import PhotoIndex
from solar.index.index import need_vectors
from solar.web.cache import MadeOnce
from solar.web.guard.thread_pools import NetworkThread, Threads
from solar.web.photos import VisiblePhoto
from solar.web.served_model import ServedModel

if TYPE_CHECKING:
    from solar.matching.match import Matches
    from solar.show.attention_source import AttentionSource
    from solar.show.collection_map import CollectionMap

V = TypeVar("V")
_MATCH_BYTES = 32 * 2**20


class Attention(MadeOnce["AttentionSource"]):
    """Attention maps of photos whose shorter side is brought to `size` pixels."""

    def __init__(self, network: NetworkThread, budget: int, size: int) -> None:
        super().__init__(budget, lambda one: one.nbytes)
        self._network, self._size = network, size

    async def source(self, photo: VisiblePhoto, model: ServedModel) -> tuple[AttentionSource, bool]:
        """What the attention maps of a photo are made of, and whether it was there already.

        A WebError if too much is waiting, a SolarError if the photo cannot be read, or the model
        has no attention.
        """
        from solar.show.attention_source import AttentionSource

        net = (await model.encoder()).net

        def look() -> AttentionSource:
            return AttentionSource.of(net, photo.source, size=self._size, half=True)

        key = (photo.id, photo.version, model.name)
        return await self.get(key, lambda: self._network.alone(look))


class Matching(MadeOnce["tuple[Matches, float]"]):
    """What two photos have in common, and the seconds that finding it took."""

    def __init__(self, threads: Threads) -> None:
        super().__init__(_MATCH_BYTES, _match_size)
        self._threads = threads

    async def match(
        self, a: VisiblePhoto, b: VisiblePhoto, box: Box | None
    ) -> tuple[tuple[Matches, float], bool]:
        """Matches, as a search that verifies finds them, and whether they were there already.

        A SolarError if a photo cannot be read, the box misses it, or OpenCV is not installed.
        """

        def compare() -> tuple[Matches, float]:
            from solar.ranking.verify import Verifier

            started = perf_counter()
            verifier = Verifier(lambda _: None, None)
            first, second = verifier.query(a.source, box=box), verifier.query(b.source)
            return verifier.matches(first, second), perf_counter() - started

        key = (a.id, a.version, b.id, b.version, box)
        return await self.get(key, lambda: self._threads.run(compare))


def _match_size(pair: tuple[Matches, float]) -> int:
    found = pair[0]
    return found.points_a.nbytes + found.points_b.nbytes + found.pairs.nbytes + 1000


class Explorer:
    """The map of an index, made in the background when it is first asked for."""

    def __init__(self, index: PhotoIndex) -> None:
        self._index = index
        self._task: asyncio.Task[CollectionMap] | None = None
        self._revision = -1
        self._since = 0.0

    @property
    def seconds(self) -> float:
        """For how long the map has been made."""
        return perf_counter() - self._since

    def ask(self, revision: int) -> CollectionMap | None:
        """The map, or None while it is being made; made anew for another revision of the photos.

        A SolarError where photos have no vectors.
        """
        from solar.show.collection_map import map_index

        index = need_vectors(self._index)
        if self._task is None or (self._task.done() and self._revision != revision):
            self._revision, self._since = revision, perf_counter()
            self._task = asyncio.create_task(asyncio.to_thread(map_index, index))
        if not self._task.done():
            return None
        done = self._task
        if done.exception() is not None:
            self._task = None  # the next who asks tries again
        return done.result()
