"""The operations of the web app, as JSON under /api/v1."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, File, Path, Query, Request, UploadFile
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import WithJsonSchema

from solar.errors import SolarError
from solar.images import Box
from solar.index.search import SearchSettings
from solar.matching.match import Matches
from solar.ranking.rerank import chosen
from solar.show.attention_source import AttentionSource
from solar.show.explanation import Explanation
from solar.web.api import inspection, schemas, updating
from solar.web.api.albums import TYPES, Album, AlbumPage, ExportForm, RenameRequest
from solar.web.api.duplicates import GroupPage, Kind, ReportOverview
from solar.web.api.filtering import MOST, SORTED, BrowseRequest, FacetsAnswer, photo_filter
from solar.web.api.schemas import PhotoId
from solar.web.api.searching import StageResult, Wanted, depth_for
from solar.web.photos import VisiblePhoto, jpeg_answer, plain_name
from solar.web.problems import WebError
from solar.web.service import Service
from solar.web.settings import LARGEST

NDJSON = "application/x-ndjson"
Offset = Annotated[int, Query(ge=0, le=10**9)]
Limit = Annotated[int, Query(ge=1, le=200)]
# As most readers of OpenAPI know files.
Upload = Annotated[UploadFile, WithJsonSchema({"type": "string", "format": "binary"})]
ShortId = Annotated[str, Path(max_length=40)]
_MOST_ADDED = 100  # photos in one request
_REJECTED = 100  # matches that do not fit, in one answer
_JPEG: dict[int | str, dict[str, Any]] = {
    200: {"description": "The picture.", "content": {"image/jpeg": {}}}
}


Width = Literal["160", "320", "640", "1280"]
"""Widths of thumbnails in pixels."""


def create_router(service: Service) -> APIRouter:
    """All operations over one service."""
    follow = Depends(service.follower.follow)  # before every answer
    router = APIRouter(prefix="/api/v1", responses=schemas.ERRORS, dependencies=[follow])

    @router.get("/info")
    async def info() -> schemas.Info:
        """Get the size of the collection, the models, and what this server allows."""
        return await service.info()

    @router.get("/photos")
    async def photos(asked: Annotated[BrowseRequest, Query()]) -> schemas.PhotoPage:
        """List the photos of the collection, page by page."""
        return await service.threads.run(service.browse, asked)

    @router.get("/facets")
    async def facets(
        search: Annotated[str | None, Query(max_length=200)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
    ) -> FacetsAnswer:
        """List the folders, tags, roots and times to filter by."""
        return await service.slow.run(service.facets.answer, search, limit)

    @router.post("/photos/remove")
    async def remove(asked: updating.RemoveRequest) -> updating.RemoveAnswer:
        """Remove photos from the index for good, if this server allows it; their files stay."""
        changed = service.follower.changed
        return await updating.remove(service.collection, asked.photos, service.slow, changed)

    @router.get("/photos/removed")
    async def removed() -> updating.RemovedPhotos:
        """List the photos that were removed and stay out, by name."""
        names = await service.slow.run(lambda: service.collection.index.removed)
        return updating.RemovedPhotos(names=names)

    @router.post("/photos/restore")
    async def restore(asked: updating.RestoreRequest) -> updating.RestoreAnswer:
        """Put removed photos back into the index, if this server allows it."""
        return await updating.retried(service.slow, partial(service.adder.restore, asked.names))

    @router.get("/photos/{id}")
    async def photo(id: Annotated[PhotoId, Path()]) -> schemas.PhotoDetails:
        """Get all details of a photo."""
        return await service.threads.run(service.photo_details, id)

    @router.get("/photos/{id}/thumbnail", response_class=Response, responses=_JPEG)
    async def thumbnail(id: Annotated[PhotoId, Path()], w: Width = "320") -> Response:
        """Get a thumbnail of a photo, upright and without its metadata."""
        return jpeg_answer(await service.picture(id, int(w)))

    @router.get("/photos/{id}/photo", response_class=Response, responses=_JPEG)
    async def large(id: Annotated[PhotoId, Path()]) -> Response:
        """Get a photo with at most 1600 pixels on its longest side."""
        return jpeg_answer(await service.picture(id, LARGEST))

    @router.get("/photos/{id}/original", response_class=Response, responses=_JPEG)
    async def full_size(id: Annotated[PhotoId, Path()]) -> Response:
        """Get a photo at full size: the file itself if this server allows downloads."""
        return await service.original(id)

    @router.post("/queries", status_code=201)
    async def queries(photo: Upload) -> schemas.PhotoInfo:
        """Upload a photo to search with; it is kept in memory for a while and not indexed."""
        return service.photo_info(await service.take(_shown(photo), await photo.read()))

    @router.post("/search", responses={200: {"content": {NDJSON: {}}}})
    async def search(asked: schemas.SearchRequest, request: Request) -> schemas.SearchAnswer:
        """Search with a photo, a part of it, or a text.

        With `Accept: application/x-ndjson`, the results of every stage come as one line each.
        """
        wanted = await service.threads.run(_wanted, service, asked)
        photo = wanted.parts[0][0] if wanted.parts else None
        rankings = service.searcher.search(wanted)
        if NDJSON in request.headers.get("accept", ""):
            first = await anext(rankings)  # refusals come before the answer begins
            lines = _lines(service, partial(service.page, asked, photo), first, rankings)
            return StreamingResponse(lines, media_type=NDJSON)  # type: ignore[return-value]
        stages = [ranking async for ranking in rankings]
        return await service.threads.run(service.page, asked, photo, stages[-1])

    @router.post("/attention")
    async def attention(asked: schemas.AttentionRequest) -> schemas.AttentionAnswer:
        """Compute the attention map of a point in a photo.

        The first request for a photo runs the network; later ones take milliseconds.
        """
        photo = await service.threads.run(service.visible, asked.photo)
        source = await service.attention.source(photo, service.model(asked.model))
        return await service.threads.run(_row, source, asked)

    @router.post("/why")
    async def why(asked: inspection.WhyRequest) -> inspection.WhyAnswer:
        """Find the regions that make two photos similar."""
        photos, found = await _explain(service, asked)
        told = [service.photo_info(photo) for photo in photos]
        # Finding the strongest of all pairs takes longer than a search.
        return await service.slow.run(inspection.explained, told, found)

    @router.post("/why/answers")
    async def answers(asked: inspection.RegionRequest) -> inspection.RegionAnswer:
        """Find what a region of one photo matches in the other; after `why`, in milliseconds."""
        _, found = await _explain(service, asked)
        return await service.threads.run(inspection.answered, asked, found)

    @router.post("/matches")
    async def matches(asked: schemas.PairRequest) -> schemas.MatchAnswer:
        """Match the keypoints of two photos."""
        a, b = [await service.threads.run(service.visible, one) for one in (asked.a, asked.b)]
        found = await service.matching.match(a, b, _box(asked.box))
        return _matched([service.photo_info(photo) for photo in (a, b)], found)

    @router.get("/map", responses={202: {"model": schemas.Unfinished}})
    async def collection_map() -> schemas.MapAnswer:
        """Arrange all photos on a map, similar ones close together; 202 while computing."""
        found = service.explorer.ask(service.collection.revision)
        if found is None:
            since = round(service.explorer.seconds, 1)
            return JSONResponse({"seconds": since}, 202)  # type: ignore[return-value]
        answer = await service.threads.run(service.map_page, found)
        return Response(answer, media_type="application/json")  # type: ignore[return-value]

    @router.get("/duplicates")
    async def duplicates() -> ReportOverview:
        """Summarise the report of duplicates, if the server has one."""
        return await service.threads.run(service.reviewer.overview, service.settings.name)

    @router.get("/duplicates/groups")
    async def groups(offset: Offset = 0, limit: Limit = 25, kind: Kind | None = None) -> GroupPage:
        """List groups of duplicates, page by page."""
        return await service.threads.run(service.reviewer.page, offset, limit, kind)

    @router.get("/albums")
    async def albums(
        offset: Offset = 0,
        limit: Limit = 25,
        shown: Annotated[int, Query(ge=1, le=20)] = 4,
    ) -> AlbumPage:
        """List albums of photos of the same place, page by page, each with its first photos."""
        return await service.threads.run(service.albums.page, offset, limit, shown)

    @router.get("/albums/export", response_class=Response)
    async def export(
        form: ExportForm = "json", album: Annotated[str | None, Query(max_length=40)] = None
    ) -> Response:
        """Export one album, or all, as JSON, as CSV or as a list of paths."""
        text = await service.slow.run(service.albums.export, form, album)
        return Response(text.encode("utf-8", "surrogateescape"), media_type=TYPES[form])

    @router.get("/albums/{id}")
    async def one_album(id: ShortId, offset: Offset = 0, limit: Limit = 50) -> Album:
        """Get an album and some of its photos."""
        return await service.threads.run(service.albums.album, id, offset, limit)

    @router.post("/albums/{id}/name")
    async def rename(id: ShortId, asked: RenameRequest) -> Album:
        """Give an album a name, if this server allows it."""
        return await service.threads.run(service.albums.rename, id, asked.name)

    @router.post("/photos", status_code=202)
    async def add(
        photos: Annotated[list[Upload], File(max_length=_MOST_ADDED)],
    ) -> schemas.JobStarted:
        """Add photos to the collection, if this server allows it."""
        files = [(_shown(photo), photo.file) for photo in photos]
        return schemas.JobStarted(job=await service.adder.start(files))

    @router.post("/sync", status_code=202)
    async def sync() -> schemas.JobStarted:
        """Update the collection from its folders, if this server allows it.

        While an update is running, its job is returned.
        """
        return schemas.JobStarted(job=service.updater.start())

    @router.get("/jobs/{id}")
    async def job(id: ShortId) -> schemas.Job:
        """Get the progress of a job that adds photos or updates the collection."""
        if (found := service.jobs.get(id)) is None:
            raise WebError(404, "There is no such job.")
        return found

    return router


def _row(source: AttentionSource, asked: schemas.AttentionRequest) -> schemas.AttentionAnswer:
    row = source.row(asked.x, asked.y, asked.layer)
    rows, columns = row.shape
    cell = divmod(source.layer(asked.layer).place((asked.x, asked.y)), columns)
    return schemas.AttentionAnswer(
        layer=asked.layer,
        rows=rows,
        columns=columns,
        row=[float(f"{value:.4g}") for value in row.ravel().tolist()],
        cell=list(cell),
        extent=list(source.extent(asked.layer)),
    )


async def _explain(
    service: Service, asked: inspection.WhyRequest
) -> tuple[list[VisiblePhoto], Explanation]:
    a, b = [await service.threads.run(service.visible, one) for one in (asked.a, asked.b)]
    found = await service.explainer.explain(
        *(a, b, service.model(asked.model)), box=_box(asked.box), attention=asked.attention
    )
    return [a, b], found


def _matched(photos: list[schemas.PhotoInfo], found: Matches) -> schemas.MatchAnswer:
    ends = np.hstack([found.points_a[found.pairs[:, 0]], found.points_b[found.pairs[:, 1]]])
    lines = ends.astype(np.float64).round(1)
    others = lines[~found.inliers]
    return schemas.MatchAnswer(
        keypoints=list(found.keypoints),
        matches=len(found.pairs),
        inliers=lines[found.inliers].tolist(),
        rejected=others[:: -(-len(others) // _REJECTED) or 1].tolist(),
        same_scene=found.same_scene,
        threshold=found.threshold,
        a=photos[0],
        b=photos[1],
    )


def _wanted(service: Service, asked: schemas.SearchRequest) -> Wanted:
    only = asked.filter or schemas.Filter.model_construct()
    liked, unliked = (
        {photo.id: photo for photo in map(service.visible, photos)}
        for photos in (asked.like, asked.unlike)
    )
    if both := liked.keys() & unliked.keys():
        raise WebError(422, f"Photo {min(both)} is both liked and unliked: choose one of the two.")
    usual = asked.rerank is None
    return Wanted(
        [(service.visible(part.photo), _box(part.box)) for part in asked.parts],
        service.model(asked.model),
        photo_filter(service.collection, only),
        list(liked.values()),
        list(unliked.values()),
        SearchSettings(
            SORTED if asked.sort else depth_for(asked.offset + asked.k + 1),
            (asked.text or "").strip() or None,
            rerank=([] if asked.text else service.usual) if usual else chosen(asked.rerank),
            lenient=usual,
            include_self=asked.include_self,
            min_score=only.min_score,
            min_probability=only.min_probability,
        ),
    )


def _box(box: list[float] | None) -> Box | None:
    return None if box is None else (box[0], box[1], box[2], box[3])


async def _lines(
    service: Service,
    page: Callable[[StageResult], schemas.SearchAnswer],
    first: StageResult,
    rest: AsyncIterator[StageResult],
) -> AsyncIterator[str]:
    ranking: StageResult | None = first
    try:
        while ranking is not None:
            yield (await service.threads.run(page, ranking)).model_dump_json() + "\n"
            ranking = await anext(rest, None)
    except (SolarError, WebError) as error:  # too late for a status: a last line instead
        yield json.dumps({"error": service.told(error)}, ensure_ascii=False) + "\n"


def _shown(upload: UploadFile) -> str:
    return plain_name(upload.filename or "")[:120] or "photo"
