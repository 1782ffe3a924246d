"""From a query's vector to ranked photos, stage by stage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images import Box
from solar.index import Index
from solar.index.index import need_vectors
from solar.ranking.feedback import arranged, updated
from solar.ranking.query import Part, mean_vector, shown
from solar.ranking.rerank import METHODS, check_needs
from solar.ranking.results import SearchResults
from solar.ranking.verify import FRESH, VerifySettings
from solar.storage.types import Hit
from solar.web.api.filtering import PhotoFilter
from solar.web.cache import Cache
from solar.web.guard.thread_pools import NetworkThread, Threads
from solar.web.photos import Collection, VisiblePhoto
from solar.web.problems import WebError
from solar.web.served_model import ServedModel

# Depths of rankings: scrolling mostly finds cached ones.
_DEPTHS = (100, 300, 1000, 3000, 10_000)
_HIT_BYTES = 200


@dataclass(frozen=True)
class Wanted:
    """A query and the filters of its results."""

    parts: Sequence[tuple[VisiblePhoto, Box | None]]  # none for a text alone
    model: ServedModel
    rerank: Sequence[str] = ()  # names of methods, in order
    only: PhotoFilter = field(default_factory=PhotoFilter)
    least: float | None = None
    depth: int = 100
    include_self: bool = False  # an indexed photo is also found for itself
    min_probability: float | None = None
    usual: bool = False  # the default methods: skip those that cannot be used
    like: Sequence[VisiblePhoto] = ()  # results that the visitor ticked
    unlike: Sequence[VisiblePhoto] = ()  # and crossed
    text: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What its vector depends on, except for the model."""
        parts = [(photo.id, photo.version, box) for photo, box in self.parts]
        judged = [[(one.id, one.version) for one in photos] for photos in (self.like, self.unlike)]
        return (tuple(parts), *map(tuple, judged), self.text)


@dataclass(frozen=True)
class StageResult:
    """The ranking after a stage."""

    stage: str
    hits: Sequence[Hit]
    seconds: dict[str, float]  # what the stages took so far
    plain: dict[str, int]  # ranks in the plain search, by path
    awaited: Sequence[str]  # the stages that follow


@dataclass(frozen=True)
class _Ranked:
    """A cached ranking: how to continue from it, what it shows, and the seconds it took."""

    results: SearchResults
    hits: Sequence[Hit]
    seconds: float


def depth_for(hits: int) -> int:
    """The depth to rank to for at least this number of hits."""
    return next((depth for depth in _DEPTHS if depth >= hits), _DEPTHS[-1])


def _probable(wanted: Wanted, ranked: _Ranked, awaited: Sequence[str]) -> Sequence[Hit]:
    """The hits that are probable enough; all of them if a later stage decides."""
    least, results = wanted.min_probability, ranked.results
    calibrated = wanted.model.index.calibration is not None
    if least is None or (results.rating is None and awaited and calibrated):
        return ranked.hits
    return results.probable(ranked.hits, least, wanted.rerank, calibrated=calibrated)


class Searcher:
    """Searches, and caches vectors and rankings for visitors who scroll or switch options.

    The `network` describes, `threads` decode and search, `slow` ones re-rank by looking at photos;
    `methods` names the available re-ranking methods, others are skipped.
    """

    def __init__(
        self,
        collection: Collection,
        network: NetworkThread,
        threads: Threads,
        slow: Threads,
        methods: Iterable[str],
    ) -> None:
        self._collection, self._network = collection, network
        self._threads, self._slow = threads, slow
        self._methods = frozenset(methods)
        self._methods_keep: dict[str, dict[str, Any]] = {}
        # Vectors, or visual words of a whole query.
        self._vectors: Cache[object, tuple[Any, float]] = Cache(
            16 * 2**20, lambda pair: pair[0].nbytes + 200
        )
        self._rankings: Cache[object, _Ranked] = Cache(
            32 * 2**20, lambda kept: _HIT_BYTES * (len(kept.hits) + len(kept.results.head) + 1)
        )

    @property
    def bytes(self) -> int:
        """Memory of what is kept."""
        return self._vectors.bytes + self._rankings.bytes

    def forget(self) -> None:
        """Drop rankings: the index has changed."""
        self._rankings.clear()

    def forget_places(self) -> None:
        """Drop everything that depends on the files of photos, too."""
        self.forget()
        self._vectors.clear()
        self._methods_keep.clear()

    async def search(self, wanted: Wanted) -> AsyncIterator[StageResult]:
        """Rank stage by stage: plain, then after each method.

        A WebError if the queue is full, a SolarError if the photo cannot be described or there are
        no probabilities.
        """
        asked, seconds = await self._described(wanted)
        liked, unliked = [
            await self._judged(wanted, photos, asked) for photos in (wanted.like, wanted.unlike)
        ]
        names = [name for name in wanted.rerank if name in self._methods]
        if not wanted.usual:
            check_needs(names, vectors=wanted.model.index.has_vectors)
        stages = ["search", *(METHODS[name].stage or name for name in names)]
        ranked: _Ranked | None = None
        plain: dict[str, int] = {}
        for number, stage in enumerate(stages):
            ranked = await self._kept(wanted, names[:number], asked, ranked)
            seconds[stage] = seconds.get(stage, 0) + ranked.seconds
            awaited = stages[number + 1 :]
            last = unliked if len(ranked.hits) < wanted.depth else ()
            every, hits = (
                arranged(liked, found, last, wanted.depth)
                for found in (ranked.hits, _probable(wanted, ranked, awaited))
            )
            plain = plain or {hit.path: rank for rank, hit in enumerate(every, 1)}
            yield StageResult(stage, hits, dict(seconds), plain, awaited)

    async def _described(self, wanted: Wanted) -> tuple[Any, dict[str, float]]:
        """The query for the index, and the seconds of computing it, by the stage's name."""
        if isinstance(wanted.model.index, Index):
            vector, took = await self.vector(wanted)
            return vector, {"describe": took}
        if wanted.text is not None or wanted.like or wanted.unlike:
            raise WebError(
                422,
                f"{wanted.model.name} is an ASMK index, which cannot be searched with text or "
                "judged results: search with photos alone.",
            )
        words, took = await self._visual_words(wanted)
        return words, {"features": took}

    async def _once(self, key: object, describe: Callable[[], Awaitable[Any]]) -> tuple[Any, float]:
        """A part of a query, and the seconds it took, from the cache if possible."""
        kept = self._vectors.get(key)
        if kept is None:
            started = perf_counter()
            kept = await describe(), perf_counter() - started
            self._vectors.put(key, kept)
        return kept

    async def _visual_words(self, wanted: Wanted) -> tuple[Any, float]:
        async def words() -> Any:
            index: Any = await wanted.model.loaded()
            parts = [Part(photo.source, box) for photo, box in wanted.parts]
            return await self._slow.run(index.signatures, parts)

        return await self._once((wanted.key, wanted.model.name), words)

    async def vector(self, wanted: Wanted) -> tuple[Vectors, float]:
        """The vector of a query, and the seconds it took."""

        async def described(
            photos: Iterable[tuple[VisiblePhoto, Box | None]],
        ) -> tuple[list[Vectors], float]:
            # One after the other: a hundred at once would fill the queues of all visitors.
            found = [await self._vector(wanted.model, photo, box) for photo, box in photos]
            return [vector for vector, _ in found], sum(seconds for _, seconds in found)

        parts, seconds = await described(wanted.parts)
        (liked, more), (unliked, most) = [
            await described((photo, None) for photo in photos)
            for photos in (wanted.like, wanted.unlike)
        ]
        if wanted.text is not None:
            words, reading = await self._words(wanted.model, wanted.text)
            parts, seconds = [*([mean_vector(parts)] if parts else []), words], seconds + reading
        vector = updated(mean_vector(parts), np.array(liked), np.array(unliked))
        return vector, seconds + more + most

    async def _words(self, model: ServedModel, text: str) -> tuple[Vectors, float]:
        async def vector() -> Vectors:
            net = (await model.encoder()).net
            run = self._network.together
            found: Vectors = await run(
                (net, "words"), text, lambda texts: list(net.describe_text(texts))
            )
            return found

        return await self._once((text, model.name), vector)

    async def _vector(
        self, model: ServedModel, photo: VisiblePhoto, box: Box | None
    ) -> tuple[Vectors, float]:
        async def vector() -> Vectors:
            if photo.indexed and box is None:
                lookup = need_vectors(model.index).engine.lookup
                found = await self._threads.run(lookup, [photo.name])
                if photo.name in found:
                    return found[photo.name][1]
            encoder = await model.encoder()
            pixels = await self._threads.run(encoder.decode, photo.source, box)
            # Not by the name of the model, which may be another one in another index.
            alike = (encoder, pixels.shape)
            described: Vectors = await self._network.together(alike, pixels, encoder.describe)
            return described

        return await self._once((photo.id, photo.version, model.name, box), vector)

    async def _kept(
        self, wanted: Wanted, names: Sequence[str], asked: Any, before: _Ranked | None
    ) -> _Ranked:
        """The ranking after these methods; `before` is that after all but the last."""
        key = (
            *(wanted.key, wanted.model.name, wanted.only),
            *(wanted.least, wanted.depth, wanted.include_self, tuple(names)),
            self._collection.revision,
        )
        kept = self._rankings.get(key)
        if kept is not None:
            return kept

        def rank() -> _Ranked:
            started = perf_counter()
            if before is None:
                results = self._results(wanted, asked)
            else:
                # Methods that look at photos start from the ranking before; others need
                # similarities.
                photos = METHODS[names[-1]].needs == "photos" and len(names) > 1
                results = before.results.led_by(before.hits) if photos else before.results
                with suppress(SolarError) if wanted.usual else nullcontext():
                    results = METHODS[names[-1]].rerank(results)
            least, hits = wanted.least, results.rated(wanted.depth)
            # Scores may become similarities in a later stage.
            if least is not None and (results.similar or len(names) == len(wanted.rerank)):
                hits = [hit for hit in hits if hit.score >= least]
            return _Ranked(results, hits, perf_counter() - started)

        slow = names and METHODS[names[-1]].needs == "photos"
        ranked = await (self._slow if slow else self._threads).run(rank)
        self._rankings.put(key, ranked)
        return ranked

    def _results(self, wanted: Wanted, described: Any) -> SearchResults:
        """A plain search among photos that pass the filters."""
        index, collection = wanted.model.index, self._collection
        where = wanted.only.conditions(collection)
        queries = [] if wanted.include_self else [photo for photo, _ in wanted.parts]
        judged = (*wanted.like, *wanted.unlike)  # which are ranked already
        left_out = {photo.name for photo in (*queries, *judged) if photo.indexed}

        def passes(path: str) -> bool:
            return wanted.only.passes(collection, path)

        def find(asked: Any, count: int) -> list[Hit]:
            """Search deeper and deeper until enough hits pass, or all were looked at."""
            depth = count + len(left_out)
            while True:
                hits = index.nearest(asked, depth, where)
                kept = [hit for hit in hits if hit.path not in left_out and passes(hit.path)]
                if len(kept) >= count or len(hits) < depth or depth >= _DEPTHS[-1]:
                    return kept[:count]
                depth = min(4 * depth, _DEPTHS[-1])

        return SearchResults(
            index.engine,
            lambda: described,
            find,
            lambda: shown([Part(photo.source, box) for photo, box in wanted.parts]),
            wanted.depth,
            settings={"verify": VerifySettings(fresh=FRESH, photos=self._collection.moved)},
            kept=self._methods_keep.setdefault(wanted.model.name, {}),
            calibration=None if wanted.like or wanted.unlike or wanted.text else index.calibration,
        )

    async def _judged(
        self, wanted: Wanted, photos: Iterable[VisiblePhoto], vector: Vectors
    ) -> list[Hit]:
        """Indexed photos that the visitor has judged and that pass the filters."""
        collection, least, hits = self._collection, wanted.least, []
        for photo in photos:
            if photo.indexed and wanted.only.holds(collection, collection.photo(int(photo.id))):
                own, _ = await self._vector(wanted.model, photo, None)
                hits.append(Hit(photo.name, float(own @ vector)))
        return [hit for hit in hits if least is None or hit.score >= least]
