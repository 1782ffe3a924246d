"""Why two photos are similar: what visitors ask, how it is found, what they get."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from solar.errors import SolarError
from solar.images import Box
from solar.web.api import schemas
from solar.web.api.schemas import BoxCorners, Pair, PhotoId, Pixel
from solar.web.cache import MadeOnce
from solar.web.guard.thread_pools import NetworkThread
from solar.web.photos import VisiblePhoto
from solar.web.served_model import ServedModel

if TYPE_CHECKING:
    from solar.models.contributions import LocatedDescriptor
    from solar.show.explanation import Explanation


class WhyRequest(schemas.Asked):
    """Two photos whose similarity is to be explained."""

    a: PhotoId
    b: PhotoId
    box: BoxCorners | None = Field(None, description="The part of A to use.")
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
    seconds: float
    cached: bool


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
    seconds: float
    cached: bool


class Explainer(MadeOnce["LocatedDescriptor"]):
    """What the regions of photos add to their descriptors; two photos make an explanation."""

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
    ) -> tuple[Explanation, bool]:
        """Why A, or a box in it, is similar to B, and whether both were there already.

        The similarity is that of a search with this model. A WebError if too much is waiting, a
        SolarError if a photo cannot be read, the box misses it, the model pools in a way that
        cannot be split, or has no attention to leave out.
        """
        from solar.models.contributions import check_splits, locate
        from solar.show.explanation import Explanation

        encoder = await model.encoder()
        net, how = encoder.net, encoder.settings
        check_splits(net)
        if not attention and not net.config.attention:
            raise SolarError(f"The model {model.name} has no attention to leave out.")

        async def located(photo: VisiblePhoto, part: Box | None) -> tuple[LocatedDescriptor, bool]:
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

        first, kept = await located(a, box)
        second, also = await located(b, None)
        return Explanation(first, second), kept and also


def explained(
    photos: Sequence[schemas.PhotoInfo], found: Explanation, cached: bool, started: float
) -> WhyAnswer:
    """What a visitor gets of an explanation of these two photos."""
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
    return WhyAnswer(
        score=round(found.score, 6),
        shift=round(found.shift, 6),
        a=a,
        b=b,
        pairs=pairs,
        seconds=round(perf_counter() - started, 5),
        cached=cached,
    )


def answered(
    asked: RegionRequest, found: Explanation, cached: bool, started: float
) -> RegionAnswer:
    """What a visitor gets who points at a region; a SolarError if it is not in the photo."""
    from solar.show.explanation import region_at

    at = asked.x, asked.y
    heat = found.answers(at, asked.side)
    return RegionAnswer(
        region=list(region_at(found.a if asked.side == "a" else found.b, at)),
        value=float(heat.sum()),
        heat=_rounded(heat, 4),
        seconds=round(perf_counter() - started, 5),
        cached=cached,
    )


def _rounded(heat: NDArray[np.float32], digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in heat.ravel().tolist()]
