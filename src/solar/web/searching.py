"""From a query's vector to ranked photos, a stage after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from solar.errors import SolarError
from solar.images import Box
from solar.search import Condition, Hit
from solar.search.engine import Vectors
from solar.search.rerank import METHODS
from solar.search.search_results import SearchResults
from solar.search.verify import FRESH, VerifySettings
from solar.web.cache import Cache
from solar.web.photos import Collection, VisiblePhoto
from solar.web.served_model import ServedModel
from solar.web.thread_pools import NetworkThread, Threads

# Rankings are made this deep, so that scrolling on mostly finds what is there already.
_DEPTHS = (100, 300, 1000, 3000, 10_000)
_HIT_BYTES = 200


@dataclass(frozen=True)
class Wanted:
    """What a visitor searches for, and what alone may be found: a label, part of a name."""

    photo: VisiblePhoto
    model: ServedModel
    box: Box | None = None
    rerank: Sequence[str] = ()  # names of methods, in order
    label: str | None = None
    name: str | None = None
    least: float | None = None
    depth: int = 100
    include_self: bool = False  # an indexed photo is also found for itself
    min_probability: float | None = None
    usual: bool = False  # nobody asked for these methods: without them where they cannot be used


@dataclass(frozen=True)
class StageResult:
    """What a stage found, best first."""

    stage: str
    hits: Sequence[Hit]
    seconds: dict[str, float]  # what the stages took so far
    plain: dict[str, int]  # ranks in the plain search, by path
    awaited: Sequence[str]  # the stages that follow


@dataclass(frozen=True)
class _Ranked:
    """A ranking that is kept: how to go on from it, what it shows, and the seconds it took."""

    results: SearchResults
    hits: Sequence[Hit]
    seconds: float


def depth_for(hits: int) -> int:
    """How deep to rank so that at least so many hits are there."""
    return next((depth for depth in _DEPTHS if depth >= hits), _DEPTHS[-1])


def _probable(wanted: Wanted, ranked: _Ranked, awaited: Sequence[str]) -> Sequence[Hit]:
    """The hits that are probable enough; all of them where a later stage will tell."""
    index, least = wanted.model.index, wanted.min_probability
    if least is None:
        return ranked.hits
    if ranked.results.rating is not None:
        return [hit for hit in ranked.hits if (hit.probability or 0) >= least]
    if awaited and index.calibration is not None:
        return ranked.hits
    raise index.no_probabilities(wanted.rerank)


class Searcher:
    """Searches, and keeps vectors and rankings for those who scroll on or switch options.

    The `network` describes, `threads` decode and search, `slow` ones rank again by looking at
    photos; `methods` names the ways to re-rank that can be used here, others are passed over.
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
        self._vectors: Cache[object, tuple[Vectors, float]] = Cache(
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
        """Forget rankings: the index has changed."""
        self._rankings.clear()

    def forget_places(self) -> None:
        """Forget also what knows where photos were, and what they looked like."""
        self.forget()
        self._vectors.clear()
        self._methods_keep.clear()

    async def search(self, wanted: Wanted) -> AsyncIterator[StageResult]:
        """Rank, a stage after the other: plain, then as each method does.

        A WebError if too much is asked for at once, a SolarError if the photo cannot be described
        or there are no probabilities.
        """
        vector, seconds_describe = await self.vector(wanted)
        names = [name for name in wanted.rerank if name in self._methods]
        stages = ["search", *(METHODS[name].stage or name for name in names)]
        seconds = {"describe": seconds_describe}
        ranked: _Ranked | None = None
        plain: dict[str, int] = {}
        for number, stage in enumerate(stages):
            ranked = await self._kept(wanted, names[:number], vector, ranked)
            seconds[stage] = seconds.get(stage, 0) + ranked.seconds
            plain = plain or {hit.path: rank for rank, hit in enumerate(ranked.hits, 1)}
            awaited = stages[number + 1 :]
            hits = _probable(wanted, ranked, awaited)
            yield StageResult(stage, hits, dict(seconds), plain, awaited)

    async def vector(self, wanted: Wanted) -> tuple[Vectors, float]:
        """The vector of a photo or a part of it, and the seconds it took."""
        photo, model, box = wanted.photo, wanted.model, wanted.box
        key = (photo.id, photo.version, model.name, box)
        kept = self._vectors.get(key)
        if kept is not None:
            return kept
        started, vector = perf_counter(), None
        if photo.indexed and box is None:
            found = await self._threads.run(model.index.engine.lookup, [photo.name])
            vector = found[photo.name][1] if photo.name in found else None
        if vector is None:
            encoder = await model.encoder()
            started = perf_counter()  # a search is not to blame for a network still loading
            pixels = await self._threads.run(encoder.decode, photo.source, box)
            alike = (model.name, pixels.shape)
            vector = await self._network.together(alike, pixels, encoder.describe)
        described = vector, perf_counter() - started
        self._vectors.put(key, described)
        return described

    async def _kept(
        self, wanted: Wanted, names: Sequence[str], vector: Vectors, before: _Ranked | None
    ) -> _Ranked:
        """The ranking after these methods, which all but the last have made `before`."""
        photo = wanted.photo
        key = (
            *(photo.id, photo.version, wanted.model.name, wanted.box, wanted.label, wanted.name),
            *(wanted.least, wanted.depth, wanted.include_self, tuple(names)),
            self._collection.revision,
        )
        kept = self._rankings.get(key)
        if kept is not None:
            return kept

        def rank() -> _Ranked:
            started = perf_counter()
            if before is None:
                results = self._results(wanted, vector)
            else:
                # What looks at photos starts from what another method left; others and a plain
                # search need similarities.
                photos = METHODS[names[-1]].needs == "photos" and len(names) > 1
                results = before.results.led_by(before.hits) if photos else before.results
                with suppress(SolarError) if wanted.usual else nullcontext():
                    results = METHODS[names[-1]].rerank(results)
            least, hits = wanted.least, results.rated(wanted.depth)
            # What is no similarity yet will be one after the stages that follow.
            if least is not None and (results.similar or len(names) == len(wanted.rerank)):
                hits = [hit for hit in hits if hit.score >= least]
            return _Ranked(results, hits, perf_counter() - started)

        slow = names and METHODS[names[-1]].needs == "photos"
        ranked = await (self._slow if slow else self._threads).run(rank)
        self._rankings.put(key, ranked)
        return ranked

    def _results(self, wanted: Wanted, vector: Vectors) -> SearchResults:
        """A plain search, which finds only photos that pass the visitor's filters."""
        index, collection = wanted.model.index, self._collection
        name, label = (wanted.name or "").casefold(), wanted.label
        # The index itself only knows how paths start.
        starts = label is not None and collection.flat
        where = (Condition("path", "=", f"{label}/"),) if starts else ()
        photo = wanted.photo
        own = photo.name if photo.indexed and not wanted.include_self else None

        def keeps(path: str) -> bool:
            fits = name in path.casefold() and (label is None or collection.label(path) == label)
            return fits and path != own

        def find(asked: Vectors, count: int) -> list[Hit]:
            """Search deeper and deeper until enough hits pass, or all were looked at."""
            depth = count + (own is not None)
            while True:
                [hits] = index.engine.search(asked[None], depth, where)
                kept = [hit for hit in hits if keeps(hit.path)]
                if len(kept) >= count or len(hits) < depth or depth >= _DEPTHS[-1]:
                    return kept[:count]
                depth = min(4 * depth, _DEPTHS[-1])

        return SearchResults(
            index.engine,
            lambda: vector,
            find,
            lambda: [wanted.photo.source],
            wanted.box,
            wanted.depth,
            settings={"verify": VerifySettings(fresh=FRESH, photos=self._collection.moved)},
            kept=self._methods_keep.setdefault(wanted.model.name, {}),
            calibration=index.calibration,
        )
