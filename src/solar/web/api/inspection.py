"""Looking closer: attention of a photo, matches and similarity of two, a map of all.

Everything is computed once and kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from solar.errors import SolarError
from solar.images import Box
from solar.index import PhotoIndex
from solar.matching.match import Matches
from solar.ranking.verify import Verifier
from solar.show.attention_source import AttentionSource
from solar.show.collection_map import CollectionMap, map_index
from solar.show.explanation import Explanation, region_at
from solar.storage.protocol import NoVectorsError
from solar.web.api import schemas
from solar.web.api.schemas import Pair, Pixel
from solar.web.cache import MadeOnce
from solar.web.guard.thread_pools import NetworkThread, Threads
from solar.web.photos import VisiblePhoto
from solar.web.served_model import ServedModel

if TYPE_CHECKING:
    from solar.models.contributions import LocatedDescriptor


V = TypeVar("V")
_MATCH_BYTES = 32 * 2**20


class Attention(MadeOnce[AttentionSource]):
    """Attention maps of photos resized to a shorter side of `size` pixels."""

    def __init__(self, network: NetworkThread, budget: int, size: int) -> None:
        super().__init__(budget, lambda one: one.nbytes)
        self._network, self._size = network, size

    async def source(self, photo: VisiblePhoto, model: ServedModel) -> AttentionSource:
        """The source of a photo's attention maps."""
        encoder = await model.encoder()

        def look() -> AttentionSource:
            return AttentionSource.of(encoder.net, photo.source, size=self._size, half=True)

        key = (photo.id, photo.version, model.name)
        return await self.get(key, lambda: self._network.alone(look))


class Matching(MadeOnce[Matches]):
    """Keypoint matches of two photos."""

    def __init__(self, threads: Threads) -> None:
        super().__init__(_MATCH_BYTES, _match_size)
        self._threads = threads

    async def match(self, a: VisiblePhoto, b: VisiblePhoto, box: Box | None) -> Matches:
        """Matches, as for verification."""

        def compare() -> Matches:
            verifier = Verifier(lambda _: None, None)
            first, second = verifier.query(a.source, box=box), verifier.query(b.source)
            return verifier.matches(first, second)

        key = (a.id, a.version, b.id, b.version, box)
        return await self.get(key, lambda: self._threads.run(compare))


def _match_size(found: Matches) -> int:
    return found.points_a.nbytes + found.points_b.nbytes + found.pairs.nbytes + 1000


class Explorer:
    """The map of an index, computed in the background on the first request."""

    def __init__(self, index: PhotoIndex) -> None:
        self._index = index
        self._task: asyncio.Task[CollectionMap] | None = None
        self._revision = -1
        self._since = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the computation started."""
        return perf_counter() - self._since

    def ask(self, revision: int) -> CollectionMap | None:
        """The map, or None while it is being computed; again for another revision."""
        index = self._index
        if not index.has_vectors:
            raise NoVectorsError
        if self._task is None or (self._task.done() and self._revision != revision):
            self._revision, self._since = revision, perf_counter()
            self._task = asyncio.create_task(asyncio.to_thread(map_index, index))
        if not self._task.done():
            return None
        done = self._task
        if done.exception() is not None:
            self._task = None  # the next request tries again
        return done.result()


class WhyRequest(schemas.PairRequest):
    """Two photos whose similarity is to be explained."""

    model: str | None = Field(None, max_length=500)
    attention: bool = Field(True, description="False: skip the attention blocks.")


class ExplainedPhoto(schemas.PhotoInfo):
    """A photo and its regions."""

    rows: list[float] = Field(description="Edges of the rows of regions, in pixels from the top.")
    columns: list[float] = Field(description="Edges of the columns, in pixels from the left.")
    heat: list[float] = Field(
        description="What each region adds to the similarity, row by row; may be negative."
    )


class ExplainedPair(BaseModel):
    """A region of each photo, by its centre, and what the two add to the similarity."""

    a: Pair[float]
    b: Pair[float]
    value: float


class WhyAnswer(BaseModel):
    """The similarity of two photos as a sum over their regions."""

    score: float = Field(description="The similarity: the sum of either heat map.")
    shift: float = Field(
        description="The part of it that comes from the bias of the whitening layer."
    )
    a: ExplainedPhoto
    b: ExplainedPhoto
    pairs: list[ExplainedPair] = Field(
        description="The strongest pairs of regions that are mutual best matches."
    )


class RegionRequest(WhyRequest):
    """A region of one of the photos, by any pixel in it."""

    side: Literal["a", "b"]
    x: Pixel = Field(description="In pixels of the upright original.")
    y: Pixel


class RegionAnswer(BaseModel):
    """What each region of the other photo adds to the similarity with this region."""

    region: Pair[int] = Field(description="Its row and column.")
    value: float = Field(description="What the region adds: the sum of the map.")
    heat: list[float] = Field(description="Of the other photo, row by row.")


class Explainer(MadeOnce["LocatedDescriptor"]):
    """Contributions of regions to descriptors; two photos make an explanation."""

    def __init__(self, network: NetworkThread, budget: int) -> None:
        super().__init__(budget, lambda one: one.nbytes)
        self._network = network

    async def explain(
        self,
        a: VisiblePhoto,
        b: VisiblePhoto,
        model: ServedModel,
        *,
        box: Box | None = None,
        attention: bool = True,
    ) -> Explanation:
        """Why A, or a box in it, is similar to B."""
        from solar.models.contributions import check_splits, locate

        encoder = await model.encoder()
        net, how = await self._network.alone(lambda: encoder.net), encoder.settings
        check_splits(net)
        if not attention and not net.config.attention:
            raise SolarError(f"The model {model.name} has no attention to leave out.")

        async def located(photo: VisiblePhoto, part: Box | None) -> LocatedDescriptor:
            def run() -> LocatedDescriptor:
                return locate(
                    *(net, photo.source),
                    size=how.size,
                    scales=how.scales,
                    box=part,
                    mode=how.mode,
                    attention=attention,
                )

            key = (photo.id, photo.version, model.name, part, attention)
            return await self.get(key, lambda: self._network.alone(run))

        return Explanation(await located(a, box), await located(b, None))


def explained(photos: Sequence[schemas.PhotoInfo], found: Explanation) -> WhyAnswer:
    """The answer with an explanation of these two photos."""
    a, b = (
        ExplainedPhoto(
            # An index may not know how large a photo is.
            **{**photo.model_dump(), "width": one.size[0], "height": one.size[1]},
            rows=one.rows.round(2).tolist(),
            columns=one.columns.round(2).tolist(),
            heat=_rounded(heat, 6),
        )
        for photo, one, heat in zip(
            photos, (found.a, found.b), (found.heat_a, found.heat_b), strict=True
        )
    )
    pairs = [
        ExplainedPair(a=list(pair.a), b=list(pair.b), value=pair.value) for pair in found.pairs()
    ]
    score, shift = round(found.score, 6), round(found.shift, 6)
    return WhyAnswer(score=score, shift=shift, a=a, b=b, pairs=pairs)


def answered(asked: RegionRequest, found: Explanation) -> RegionAnswer:
    """The answer for a region; a SolarError if it is not in the photo."""
    at = asked.x, asked.y
    heat = found.answers(at, asked.side)
    return RegionAnswer(
        region=list(region_at(found.a if asked.side == "a" else found.b, at)),
        value=float(heat.sum()),
        heat=_rounded(heat, 4),
    )


def _rounded(heat: NDArray[np.float32], digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in heat.ravel().tolist()]
