"""From a query's vector to ranked photos, a stage after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from solar.images import Box
from solar.search import Condition, Hit, Index, Where
from solar.search.engine import Vectors
from solar.web.cache import Cache
from solar.web.photos import Collection, VisiblePhoto
from solar.web.served_model import ServedModel
from solar.web.thread_pools import NetworkThread, Threads

if TYPE_CHECKING:
    from solar.search.verify import Verifier

Stage = Literal["search", "expand", "verify"]

# Rankings are made this deep, so that scrolling on mostly finds what is there already.
_DEPTHS = (100, 300, 1000, 3000, 10_000)
_HIT_BYTES = 200
_VERIFIED = " verified"


@dataclass(frozen=True)
class Wanted:
    """What a visitor searches for.

    Attributes:
        photo: What is shown.
        model: What describes it.
        box: The part of the photo.
        expand: Query expansion.
        verify: Whether to verify the best.
        label: Only photos with this label.
        name: Only photos with this in their name.
        least: Only scores from here on.
        depth: How many hits.
    """

    photo: VisiblePhoto
    model: ServedModel
    box: Box | None = None
    expand: str | None = None
    verify: bool = False
    label: str | None = None
    name: str | None = None
    least: float | None = None
    depth: int = 100


@dataclass(frozen=True)
class StageResult:
    """What a stage found.

    Attributes:
        stage: Which.
        hits: Best first.
        seconds: What the stages took so far.
        plain: Ranks in the plain search, by path.
        complete: Whether this was the last stage.
    """

    stage: Stage
    hits: Sequence[Hit]
    seconds: dict[str, float]
    plain: dict[str, int]
    complete: bool


def depth_for(hits: int) -> int:
    """How deep to rank so that at least so many hits are there."""
    return next((depth for depth in _DEPTHS if depth >= hits), _DEPTHS[-1])


class Searcher:
    """Searches, and keeps vectors and rankings for those who scroll on or switch options.

    `threads` decode and search, `slow` ones verify; without a `verifier` nothing is verified.
    """

    def __init__(
        self,
        collection: Collection,
        network: NetworkThread,
        threads: Threads,
        slow: Threads,
        verifier: Callable[[], Verifier] | None = None,
    ) -> None:
        self._collection, self._network = collection, network
        self._threads, self._slow = threads, slow
        self._verifier = verifier
        self._vectors: Cache[object, tuple[Vectors, float]] = Cache(
            16 * 2**20, lambda pair: pair[0].nbytes + 200
        )
        self._rankings: Cache[object, tuple[Sequence[Hit], float]] = Cache(
            32 * 2**20, lambda pair: _HIT_BYTES * (len(pair[0]) + 1)
        )

    @property
    def bytes(self) -> int:
        """Memory of what is kept."""
        return self._vectors.bytes + self._rankings.bytes

    def forget(self) -> None:
        """Forget rankings: the index has changed."""
        self._rankings.clear()

    async def search(self, wanted: Wanted) -> AsyncIterator[StageResult]:
        """Rank, a stage after the other: plain, expanded, verified.

        Raises:
            WebError: Too much is asked for at once.
            SolarError: The photo cannot be described.
        """
        vector, seconds_describe = await self.vector(wanted)
        hits, took = await self._kept(wanted, "", lambda: self._find(wanted, vector, None))
        seconds = {"describe": seconds_describe, "search": took}
        plain = {hit.path: rank for rank, hit in enumerate(hits, 1)}
        verify = wanted.verify and self._verifier is not None
        last: Stage = "verify" if verify else "expand" if wanted.expand else "search"
        yield StageResult("search", hits, dict(seconds), plain, complete=last == "search")
        if wanted.expand:
            method = wanted.expand
            hits, took = await self._kept(
                wanted, method, lambda: self._find(wanted, vector, method)
            )
            seconds["expand"] = took
            yield StageResult("expand", hits, dict(seconds), plain, complete=last == "expand")
        if verify:
            found = hits
            hits, took = await self._kept(
                wanted, f"{wanted.expand}{_VERIFIED}", lambda: self._verify(wanted, found)
            )
            seconds["verify"] = took
            yield StageResult("verify", hits, dict(seconds), plain, complete=True)

    async def vector(self, wanted: Wanted) -> tuple[Vectors, float]:
        """The vector of a photo or a part of it, and the seconds it took."""
        photo, model, box = wanted.photo, wanted.model, wanted.box
        key = (photo.id, photo.version, model.name, box)
        kept = self._vectors.get(key)
        if kept is not None:
            return kept
        started = perf_counter()
        vector = await self._indexed(photo, model) if photo.indexed and box is None else None
        if vector is None:
            encoder = await model.encoder()
            started = perf_counter()  # a search is not to blame for a network still loading
            pixels = await self._threads.run(encoder.decode, photo.source, box)
            alike = (model.name, pixels.shape)
            vector = await self._network.together(alike, pixels, encoder.describe)
        described = vector, perf_counter() - started
        self._vectors.put(key, described)
        return described

    async def _indexed(self, photo: VisiblePhoto, model: ServedModel) -> Vectors | None:
        found = await self._threads.run(model.index.engine.lookup, [photo.name])
        return found[photo.name][1] if photo.name in found else None

    async def _kept(
        self, wanted: Wanted, stage: str, rank: Callable[[], Sequence[Hit]]
    ) -> tuple[Sequence[Hit], float]:
        photo = wanted.photo
        key = (
            *(photo.id, photo.version, wanted.model.name, wanted.box, wanted.label, wanted.name),
            *(wanted.least, wanted.depth, stage, len(self._collection)),
        )
        kept = self._rankings.get(key)
        if kept is not None:
            return kept

        def timed() -> tuple[Sequence[Hit], float]:
            started = perf_counter()
            hits = rank()
            return hits, perf_counter() - started

        ranked = await (self._slow if stage.endswith(_VERIFIED) else self._threads).run(timed)
        self._rankings.put(key, ranked)
        return ranked

    def _find(self, wanted: Wanted, vector: Vectors, expand: str | None) -> Sequence[Hit]:
        where = self._where(wanted.label)
        hits = _filtered(
            wanted.model.index, vector, wanted.depth, expand, where, self._keeps(wanted)
        )
        return [hit for hit in hits if wanted.least is None or hit.score >= wanted.least]

    def _where(self, label: str | None) -> Where:
        """What lets the index itself leave out photos: it only knows how paths start."""
        if label is None or not self._collection.flat:
            return ()
        return (Condition("path", "=", f"{label}/"),)

    def _keeps(self, wanted: Wanted) -> Callable[[str], bool]:
        name, label = (wanted.name or "").casefold(), wanted.label
        return lambda path: (
            name in path.casefold() and (label is None or self._collection.label(path) == label)
        )

    def _verify(self, wanted: Wanted, hits: Sequence[Hit]) -> Sequence[Hit]:
        assert self._verifier is not None
        verifier = self._verifier()
        return verifier.verify([verifier.query(wanted.photo.source, box=wanted.box)], hits)


def _filtered(
    index: Index,
    vector: Vectors,
    wanted: int,
    expand: str | None,
    where: Where,
    keeps: Callable[[str], bool],
) -> Sequence[Hit]:
    """Search deeper and deeper until enough hits pass, or all were looked at."""
    depth = wanted
    while True:
        hits = index.search(vector, depth, expand=expand, where=where)
        kept = [hit for hit in hits if keeps(hit.path)]
        if len(kept) >= wanted or len(hits) < depth or depth >= _DEPTHS[-1]:
            return kept[:wanted]
        depth = min(4 * depth, _DEPTHS[-1])
