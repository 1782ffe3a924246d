"""What travels between the page and the server, as JSON."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from solar.search.rerank import METHODS
from solar.search.sync import Changes
from solar.web.field_types import BoxCorners, Pair, PhotoId, Pixel
from solar.web.filter_types import Conditions, HitOrder, RootName
from solar.web.settings import LARGEST, THUMBNAIL

Expansion = Literal["alpha", "average"]


class Asked(BaseModel):
    """A request: what it does not know is refused, so that a misspelt option does not vanish."""

    model_config = ConfigDict(extra="forbid")


class Error(BaseModel):
    """What was wrong, and what to do."""

    error: str = Field(description="One sentence.")


class ModelInfo(BaseModel):
    """A model that can be searched with."""

    name: str
    attention: list[int] = Field(description="The layers whose attention can be looked at.")
    why: bool = Field(description="Whether it can tell why two photos are similar.")
    text: bool = Field(description="Whether it can be searched with words.")


class SettingsInfo(BaseModel):
    """What this server lets visitors do."""

    writable: bool
    token: bool
    max_upload_bytes: int
    max_pixels: int


def _method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"no re-ranking is called {name!r}: choose from {', '.join(METHODS)}")
    return name


def _list_methods(schema: dict[str, Any]) -> None:
    schema["enum"] = list(METHODS)


Method = Annotated[str, AfterValidator(_method), Field(json_schema_extra=_list_methods)]


class MethodInfo(BaseModel):
    """A way to rank results again."""

    name: str
    label: str
    summary: str = Field(description="What it does, in a sentence.")
    needs: Literal["vectors", "photos"] = Field(description="What it needs.")


class Features(BaseModel):
    """What can be asked for."""

    rerank: list[MethodInfo]
    usual: list[str] = Field(description="Names of the defaults.")
    probability: bool = Field(description="Whether hits come with probabilities.")
    expand: list[Expansion] = Field(description="An older spelling of some of `rerank`.")
    verify: bool
    match: bool
    labels: bool
    map: bool
    judge: bool = Field(description="Whether results can be liked and unliked.")
    sync: bool = Field(description="Whether the collection may be brought up to date.")
    duplicates: bool = Field(description="Whether there is a report of duplicates.")
    albums: bool = Field(description="Whether there are groups of photos of the same place.")


class IndexLink(BaseModel):
    """One of several indexes of a server."""

    name: str
    address: str = Field(description="The path of its page, below which its API is.")


class Info(BaseModel):
    """About the collection and the server."""

    name: str
    indexes: list[IndexLink] = Field(description="All of this server, where there are several.")
    photos: int = Field(description="How many are indexed.")
    dim: int = Field(description="Length of a descriptor.")
    models: list[ModelInfo] = Field(description="The first is used where none is named.")
    settings: SettingsInfo
    features: Features


class PhotoInfo(BaseModel):
    """A photo, and where its pictures are."""

    id: str
    name: str
    width: int = Field(description="Of the upright photo; 0 where it is not known.")
    height: int
    label: str | None = Field(None, description="What it shows, where the collection says so.")
    taken: str | None = Field(None, description="When, by the camera's clock, where it is known.")
    position: list[float] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="Where it was taken, in degrees north and east, where it is known.",
    )
    camera: str | None = Field(None, description="What it was taken with, where it is known.")
    tags: list[str] = []
    thumbnail: str = Field(description=f"A ready-made address, {THUMBNAIL} pixels.")
    photo: str = Field(description=f"A ready-made address, up to {LARGEST} pixels.")


class PhotoDetails(PhotoInfo):
    """All that is known of one photo."""

    bytes: int = Field(description="Of its file; 0 where it has just gone.")
    original: str = Field(description="A ready-made address, at its full size.")
    original_is_file: bool = Field(
        description="Whether that is the file itself; otherwise it is upright and encoded anew."
    )


class PhotoPage(BaseModel):
    """A piece of the collection."""

    total: int
    photos: list[PhotoInfo]


class Filter(Asked):
    """Which photos may be found."""

    name_contains: str | None = Field(None, max_length=200)
    label: str | None = Field(None, max_length=500)
    min_score: float | None = Field(None, allow_inf_nan=False)
    min_probability: float | None = Field(None, ge=0, le=1, description="Of the same place.")
    where: Conditions = []
    root: RootName = None


class QueryPart(Asked):
    """A further photo of a query, or a part of one."""

    photo: PhotoId
    box: BoxCorners | None = None


class SearchRequest(Asked):
    """What to look for, and how."""

    photo: PhotoId | None = Field(None, description="May be missing where there is a text.")
    text: str | None = Field(
        None,
        max_length=500,
        description="What the photos show, in words, alone or together with a photo; for models "
        "with a text side. Nothing is ranked again unless `rerank` says so.",
    )
    box: BoxCorners | None = None
    further: list[QueryPart] = Field(
        [], max_length=9, description="More photos of the same thing, searched for together."
    )
    like: list[PhotoId] = Field(
        [],
        max_length=50,
        description="Results that are right: they come first, more like them next.",
    )
    unlike: list[PhotoId] = Field(
        [],
        max_length=50,
        description="Results that are wrong: they come last, few like them before.",
    )
    k: int = Field(50, ge=1, le=200, description="How many hits at a time.")
    offset: int = Field(0, ge=0, le=9800, description="How many to leave out, for endless scroll.")
    rerank: list[Method] | None = Field(
        None,
        max_length=10,
        description="Ways to rank the results again, in order; none if empty, `info`'s `usual` "
        "if not given.",
    )
    expand: Expansion | None = Field(None, description="The same, before those in `rerank`.")
    verify: bool = Field(False, description='`"verify"` after those in `rerank`.')
    model: str | None = Field(None, max_length=500, description="One of `info`'s; the first.")
    filter: Filter | None = None
    include_self: bool = Field(False, description="Also find an indexed photo for itself.")
    sort: HitOrder | None = Field(
        None, description="Another order than by rank, of the best 1,000; ranks stay as they are."
    )

    @model_validator(mode="after")
    def _asks_for_something(self) -> "SearchRequest":
        if self.photo is None and not (self.text or "").strip():
            raise ValueError("a search needs a photo or a text")
        if self.photo is None and (self.box or self.further):
            raise ValueError("a box and further photos go with a photo, not with a text alone")
        return self


class HitInfo(PhotoInfo):
    """A photo found."""

    score: float
    rank: int = Field(description="From 1.")
    same_label: bool | None = Field(
        None, description="Whether it shows what the query shows, where both are known."
    )
    inliers: int | None = Field(None, description="Matches that fit one geometry, if verified.")
    same_scene: bool | None = Field(
        None, description="Whether `inliers` reach the `threshold`; None where nobody looked."
    )
    threshold: int | None = Field(None, description="Fewer inliers may be there by chance.")
    probability: float | None = Field(
        None, description="That it shows the same place, where the model is calibrated."
    )
    moved: int | None = Field(
        None, description="Ranks gained (+) or lost (-) against the plain search."
    )


class SearchAnswer(BaseModel):
    """What was found. As NDJSON one of these a line, a stage each, the last one complete."""

    stage: str = Field(description="`search`, `expand`, or what another method is called.")
    complete: bool
    awaited: list[str] = Field(description="The stages that follow.")
    query: PhotoInfo | None = Field(None, description="None where there is a text alone.")
    text: str | None = None
    hits: list[HitInfo]
    more: bool = Field(description="Whether a higher offset gives more.")
    seconds: dict[str, float] = Field(description="What `describe` and each stage took.")


class AttentionRequest(Asked):
    """A click on a photo."""

    photo: PhotoId
    x: Pixel = Field(description="In pixels of the upright original.")
    y: Pixel
    layer: int = Field(5, ge=1, le=6)
    model: str | None = Field(None, max_length=500)


class AttentionAnswer(BaseModel):
    """Where the location looks: a number for each cell of the layer, row by row, their sum one."""

    layer: int
    rows: int
    columns: int
    row: list[float]
    cell: Pair[int] = Field(description="Row and column of the location's own cell.")
    extent: Pair[float] = Field(
        description="How many columns and rows the photo covers; the last may be cut."
    )
    seconds: float
    cached: bool


class MatchRequest(Asked):
    """Two photos to compare point by point."""

    a: PhotoId
    b: PhotoId
    box: BoxCorners | None = Field(None, description="Only keypoints of A inside it.")


class MatchedPhoto(BaseModel):
    """One side of a match."""

    id: str
    width: int
    height: int
    photo: str


class MatchAnswer(BaseModel):
    """What two photos have in common."""

    keypoints: Pair[int] = Field(description="Of A and of B.")
    matches: int = Field(description="Pairs of keypoints that look alike.")
    inliers: list[list[float]] = Field(
        description="x and y in A, x and y in B, of the pairs that fit one geometry."
    )
    same_scene: bool = Field(description="Whether the inliers reach the `threshold`.")
    threshold: int = Field(description="Fewer inliers may be there by chance.")
    a: MatchedPhoto
    b: MatchedPhoto
    seconds: float
    cached: bool


class MapPoint(BaseModel):
    """A photo's place on the map."""

    id: str
    name: str
    label: str | None = None
    taken: str | None = Field(None, description="When, by the camera's clock, where it is known.")
    thumbnail: str
    x: float = Field(ge=0, le=1, description="From left to right.")
    y: float = Field(ge=0, le=1, description="From top to bottom.")


class MapAnswer(BaseModel):
    """All photos, or an even sample of very many, alike ones close together."""

    points: list[MapPoint]
    total: int = Field(description="How many photos were arranged; `points` may be fewer.")
    method: str = Field(description="`tsne`, or `pca` for a few photos.")


class Unfinished(BaseModel):
    """Not done yet: ask again."""

    seconds: float = Field(ge=0, description="For how long it has been worked on.")


class JobStarted(BaseModel):
    """Work has begun; `jobs/{job}` tells how far it is."""

    job: str


class Failed(BaseModel):
    """A photo that was not added, and why."""

    name: str
    error: str


class ChangeCounts(BaseModel):
    """How many photos an update found new, changed, moved, deleted, and could not take in."""

    new: int
    changed: int
    moved: int
    deleted: int
    skipped: int

    @classmethod
    def of(cls, changes: Changes) -> "ChangeCounts":
        """Count what changed."""
        return cls(**{name: len(getattr(changes, name)) for name in cls.model_fields})


class Job(BaseModel):
    """How far the adding of photos, or an update of the collection, is."""

    state: Literal["running", "done"]
    done: int = Field(description="Photos that are dealt with.")
    total: int = Field(description="Of an update: those to describe, 0 until that is known.")
    added: list[str] = Field(description="Ids of the photos that are indexed now.")
    known: list[str] = Field(
        default=[], description="Ids of those of `added` that had been there already."
    )
    failed: list[Failed]
    changes: ChangeCounts | None = Field(default=None, description="What an update changed.")
    error: str | None = Field(default=None, description="Why an update broke off.")


class Health(BaseModel):
    """How the server is."""

    status: Literal["ok", "starting"]


_SECONDS = {"type": "integer", "minimum": 1}
_WAIT = {"Retry-After": {"description": "Seconds to wait.", "required": True, "schema": _SECONDS}}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {
        "model": Error,
        "description": text,
        **({"headers": _WAIT} if "Retry-After" in text else {}),
    }
    for status, text in {
        400: "The request is not understood.",
        401: "A token is missing.",
        403: "Not from another site's page, or not on this server.",
        404: "There is no such thing.",
        405: "Not with this method.",
        408: "The rest of the request did not come.",
        413: "Too many bytes or pixels.",
        415: "Not a photo.",
        421: "The server is not called that.",
        422: "A value makes no sense.",
        429: "Too many requests; `Retry-After` says when to try again.",
        503: "Too much is waiting; `Retry-After` says when to come back.",
    }.items()
}
