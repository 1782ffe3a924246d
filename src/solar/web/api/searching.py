"""From a query's vector to ranked photos, stage by stage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import Any

import numpy as np

from solar.arrays import Vectors
from solar.images import Box
from solar.index import PhotoIndex
from solar.index.search import Ranking, Search, SearchSettings
from solar.ranking.feedback import updated
from solar.ranking.query import Part, mean_vector, with_words
from solar.ranking.rerank import METHODS
from solar.ranking.results import SearchResults
from solar.ranking.verify import FRESH, VerifySettings
from solar.storage.types import Hit
from solar.web.api.filtering import PhotoFilter
from solar.web.cache import Cache
from solar.web.guard.thread_pools import NetworkThread, Threads
from solar.web.photos import Collection, VisiblePhoto
from solar.web.served_model import ServedModel

# Depths of rankings: scrolling mostly finds cached ones.
_DEPTHS = (100, 300, 1000, 3000, 10_000)
_HIT_BYTES = 200


@dataclass(frozen=True)
class Wanted:
    """A query, and how to search for it."""

    parts: Sequence[tuple[VisiblePhoto, Box | None]]  # none for a text alone
    model: ServedModel
    only: PhotoFilter = field(default_factory=PhotoFilter)
    like: Sequence[VisiblePhoto] = ()  # results that the visitor ticked
    unlike: Sequence[VisiblePhoto] = ()  # and crossed
    settings: SearchSettings = field(default_factory=SearchSettings)

    @property
    def key(self) -> tuple[object, ...]:
        """What its vector depends on, except for the model."""
        parts = [(photo.id, photo.version, box) for photo, box in self.parts]
        judged = [[(one.id, one.version) for one in photos] for photos in (self.like, self.unlike)]
        return (tuple(parts), *map(tuple, judged), self.settings.text)


@dataclass(frozen=True)
class StageResult:
    """The ranking after a stage."""

    stage: str
    hits: Sequence[Hit]
    seconds: dict[str, float]  # what the stages took so far
    plain: dict[str, int]  # ranks in the plain search, by path
    awaited: Sequence[str]  # the stages that follow


def depth_for(hits: int) -> int:
    """The depth to rank to for at least this number of hits."""
    return next((depth for depth in _DEPTHS if depth >= hits), _DEPTHS[-1])


class Searcher:
    """Searches, and caches vectors and rankings for visitors who scroll or switch options."""

    def __init__(
        self,
        collection: Collection,
        indexes: Sequence[PhotoIndex],
        network: NetworkThread,  # describes
        threads: Threads,  # decode and search
        slow: Threads,  # re-rank by looking at photos
    ) -> None:
        self._collection, self._indexes, self._network = collection, indexes, network
        self._threads, self._slow = threads, slow
        # Vectors, or visual words of a whole query.
        self._vectors: Cache[object, Any] = Cache(16 * 2**20, lambda vector: vector.nbytes + 200)
        self._rankings: Cache[object, SearchResults] = Cache(
            32 * 2**20, lambda kept: _HIT_BYTES * (len(kept.top) + len(kept.head) + 1)
        )

    @property
    def bytes(self) -> int:
        """Memory of what is kept."""
        return self._vectors.bytes + self._rankings.bytes

    def forget(self) -> None:
        """Drop everything: the index has changed, or the files of photos."""
        self._rankings.clear()
        self._vectors.clear()
        for index in self._indexes:
            index.kept.clear()

    async def search(self, wanted: Wanted) -> AsyncIterator[StageResult]:
        """Rank stage by stage: plain, then after each method; errors come before the first."""
        started = perf_counter()
        if wanted.model.index.has_vectors:
            stage, asked = "describe", await self.vector(wanted)
        else:
            stage, asked = "features", await self._visual_words(wanted)
        seconds = {stage: perf_counter() - started}
        search = await self._threads.run(self._search, wanted, asked)
        plain: dict[str, int] = {}
        ranking: Ranking | None = None
        while ranking is None or ranking.awaited:
            started = perf_counter()
            ranking = await self._next(wanted, search, ranking)
            hits = await self._threads.run(attrgetter("hits"), ranking)
            seconds[ranking.stage] = seconds.get(ranking.stage, 0) + perf_counter() - started
            plain = plain or {hit.path: rank for rank, hit in enumerate(ranking.every, 1)}
            yield StageResult(ranking.stage, hits, dict(seconds), plain, ranking.awaited)

    async def _once(self, key: object, describe: Callable[[], Awaitable[Any]]) -> Any:
        """A part of a query, from the cache if possible."""
        kept = self._vectors.get(key)
        if kept is None:
            kept = await describe()
            self._vectors.put(key, kept)
        return kept

    async def _visual_words(self, wanted: Wanted) -> Any:
        async def words() -> Any:
            index = await wanted.model.loaded()
            query = with_words(_parts(wanted.parts), wanted.settings.text)
            return await self._slow.run(index.encode, query)

        return await self._once((wanted.key, wanted.model.name), words)

    async def vector(self, wanted: Wanted) -> Vectors:
        """The vector of a query."""
        model, text = wanted.model, wanted.settings.text
        # One after the other: a hundred at once would fill the queues of all visitors.
        parts = [await self._vector(model, photo, box) for photo, box in wanted.parts]
        liked, unliked = [
            np.array([await self._vector(model, photo, None) for photo in photos])
            for photos in (wanted.like, wanted.unlike)
        ]
        words = [] if text is None else [await self._words(model, text)]
        return updated(mean_vector(parts, words), liked, unliked)

    async def _words(self, model: ServedModel, text: str) -> Vectors:
        async def vector() -> Any:
            net = (await model.encoder()).net
            run = self._network.together
            return await run((net, "words"), text, lambda texts: list(net.describe_text(texts)))

        found: Vectors = await self._once((text, model.name), vector)
        return found

    async def _vector(self, model: ServedModel, photo: VisiblePhoto, box: Box | None) -> Vectors:
        async def vector() -> Any:
            if photo.indexed and box is None:
                found = await self._threads.run(model.index.lookup, [photo.name])
                if photo.name in found:
                    return found[photo.name][1]
            encoder = await model.encoder()
            pixels = await self._threads.run(encoder.decode, photo.source, box)
            # Not by the name of the model, which may be another one in another index.
            alike = (encoder, pixels.shape)
            return await self._network.together(alike, pixels, encoder.describe)

        found: Vectors = await self._once((photo.id, photo.version, model.name, box), vector)
        return found

    async def _next(self, wanted: Wanted, search: Search, before: Ranking | None) -> Ranking:
        """The next ranking of a search, from the cache if possible."""
        done = 0 if before is None else before.done + 1
        names, settings = search.names[:done], wanted.settings
        key = (
            *(wanted.key, wanted.model.name, wanted.only),
            *(settings.k, settings.include_self, tuple(names), self._collection.revision),
        )
        kept = self._rankings.get(key)
        if kept is None:

            def rank() -> SearchResults:
                results = search.after(before).results
                _ = results.top
                return results

            slow = names and METHODS[names[-1]].needs == "photos"
            kept = await (self._slow if slow else self._threads).run(rank)
            self._rankings.put(key, kept)
        return Ranking(search, kept, done)

    def _search(self, wanted: Wanted, described: Any) -> Search:
        collection, settings = self._collection, wanted.settings
        verify = VerifySettings(fresh=FRESH, photos=collection.moved)
        settings = replace(
            settings,
            where=wanted.only.conditions(collection),
            only=partial(wanted.only.passes, collection),
            like=_parts((photo, None) for photo in wanted.like),
            unlike=_parts((photo, None) for photo in wanted.unlike),
            verify=verify if "verify" in (settings.rerank or ()) else None,
        )
        return Search(wanted.model.index, _parts(wanted.parts), settings, described)


def _parts(photos: Iterable[tuple[VisiblePhoto, Box | None]]) -> list[Part]:
    return [Part(photo.source, box, photo.name if photo.indexed else None) for photo, box in photos]
