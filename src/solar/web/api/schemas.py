"""What travels between the page and the server, as JSON."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from solar.ranking.rerank import METHODS
from solar.ranking.verdict import Verdict
from solar.web.settings import LARGEST, THUMBNAIL

KnownOrder = Literal["name", "newest", "oldest"]
"""Orders that need no query; photos without a capture time come last."""

HitOrder = Literal["similarity", "probability", "name", "newest", "oldest"]
"""Orders of hits, besides that of their ranks."""

PhotoId = Annotated[
    str,
    Field(
        pattern=r"^(\d{1,12}|q-[A-Za-z0-9_-]{4,40})$",
        description="The id of an indexed or an uploaded photo.",
        examples=["17", "q-Zk3vYw8tQbLm4nXr"],
    ),
]


def _encloses(box: list[float]) -> list[float]:
    if box[0] >= box[2] or box[1] >= box[3]:
        raise ValueError("the box encloses nothing: x1 must be less than x2, and y1 less than y2")
    return box


# Not a tuple, whose schema not every reader of OpenAPI understands.
Number = TypeVar("Number", int, float)
Pair = Annotated[list[Number], Field(min_length=2, max_length=2)]
Pixel = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
BoxCorners = Annotated[
    list[Pixel],
    Field(min_length=4, max_length=4, description="x1, y1, x2, y2 in pixels of the upright photo."),
    AfterValidator(_encloses),  # of four numbers
]


class Asked(BaseModel):
    """A request; unknown fields are rejected, so that a misspelt option is noticed."""

    model_config = ConfigDict(extra="forbid")


class Error(BaseModel):
    """What was wrong, and what to do."""

    error: str = Field(description="One sentence.")


class ModelInfo(BaseModel):
    """A model that can be searched with."""

    name: str
    attention: list[int] = Field(description="The layers that have attention maps.")
    why: bool = Field(description="Whether it can explain why two photos are similar.")
    text: bool = Field(description="Whether it supports text search.")


class SettingsInfo(BaseModel):
    """What this server allows, and its limits."""

    writable: bool
    token: bool
    max_upload_bytes: int
    max_pixels: int
    tiles: str | None = Field(None, description="Address of map tiles: {z}, {x}, {y}.")
    tiles_attribution: str | None = Field(None, description="Whom the map credits for them.")


def _list_methods(schema: dict[str, Any]) -> None:
    schema["enum"] = list(METHODS)


class MethodInfo(BaseModel):
    """A re-ranking method."""

    name: str
    label: str
    summary: str = Field(description="What it does, in one sentence.")
    needs: Literal["vectors", "photos"] = Field(description="What it needs.")


class Features(BaseModel):
    """What the server supports."""

    rerank: list[MethodInfo]
    usual: list[str] = Field(description="Names of the methods that are used by default.")
    probability: bool = Field(description="Whether hits come with probabilities.")
    labels: bool
    map: bool = Field(description="Whether it has embeddings, for a map and for judging results.")
    duplicates: bool = Field(description="Whether there is a report of duplicates.")
    albums: bool = Field(description="Whether there are groups of photos of the same place.")


class IndexLink(BaseModel):
    """One of several indexes of a server."""

    name: str
    address: str = Field(description="The path of its page; its API is below it.")


class Info(BaseModel):
    """About the collection and the server."""

    name: str
    indexes: list[IndexLink] = Field(description="All indexes of the server, if it has several.")
    photos: int = Field(description="How many are indexed.")
    dim: int = Field(description="Length of an embedding.")
    models: list[ModelInfo] = Field(description="The first is the default.")
    settings: SettingsInfo
    features: Features


class PhotoInfo(BaseModel):
    """A photo, and the addresses of its pictures."""

    id: str
    name: str
    width: int = Field(description="Of the upright photo; 0 if unknown.")
    height: int
    label: str | None = Field(None, description="What it shows, if the collection has labels.")
    taken: str | None = Field(None, description="Capture time by the camera's clock, if known.")
    position: Pair[float] | None = Field(None, description="Latitude and longitude, if known.")
    camera: str | None = Field(None, description="The camera, if known.")
    tags: list[str] = []
    fields: dict[str, str | int | float | bool] = Field({}, description="Own fields, by name.")
    thumbnail: str = Field(description=f"Address of a picture of {THUMBNAIL} pixels.")
    photo: str = Field(description=f"Address of a picture of up to {LARGEST} pixels.")


class PhotoDetails(PhotoInfo):
    """All details of one photo."""

    bytes: int = Field(description="Size of its file; 0 if it has just been deleted.")
    exposure: dict[str, str] = Field(
        {}, description="Lens, focal length, aperture, exposure time and ISO, as far as known."
    )
    original: str = Field(description="Address of the photo at full size.")
    original_is_file: bool = Field(
        description="Whether that is the file itself; otherwise it is an upright, re-encoded JPEG."
    )
    preview: bool = Field(description="Whether it is a RAW file, known by the preview inside.")


class PhotoPage(BaseModel):
    """A page of the collection."""

    total: int
    photos: list[PhotoInfo]


class PhotoConditions(Asked):
    """Which photos to find or list."""

    search: str | None = Field(
        None, max_length=200, description="Words that all occur in the name or the capture time."
    )
    label: str | None = Field(None, max_length=500)
    where: list[Annotated[str, Field(max_length=500)]] = Field(
        [],
        max_length=20,
        description="Conditions that must all hold, as for `solar search --where`: `tag=night`, "
        "`path=rome/`, `width>=1024`, `taken>=2019-07-14`, `taken<2020`, "
        "`near=48.858,2.294,500m`, or of own fields `color=red`, `floor>=3`, `floor<7`.",
    )
    root: str | None = Field(
        None,
        max_length=500,
        description="Only photos of this root, by its name in `facets`; may be empty.",
    )


class Filter(PhotoConditions):
    """Conditions on the photos to find."""

    min_score: float | None = Field(None, allow_inf_nan=False)
    min_probability: float | None = Field(
        None, ge=0, le=1, description="Minimum probability of showing the same place."
    )


class QueryPart(Asked):
    """A further photo of a query, or a box in it."""

    photo: PhotoId
    box: BoxCorners | None = None


class SearchRequest(Asked):
    """The query and the search options."""

    photo: PhotoId | None = Field(None, description="Optional if there is a text.")
    text: str | None = Field(
        None,
        max_length=500,
        description="What the photos show, in words, alone or together with a photo; for models "
        "with a text encoder. Results are not re-ranked unless `rerank` is given.",
    )
    box: BoxCorners | None = None
    further: list[QueryPart] = Field(
        [], max_length=9, description="More photos of the same thing, combined into one query."
    )
    like: list[PhotoId] = Field(
        [], max_length=50, description="Correct results: they come first, then photos like them."
    )
    unlike: list[PhotoId] = Field(
        [], max_length=50, description="Wrong results: last, and photos like them rank lower."
    )
    k: int = Field(50, ge=1, le=200, description="Number of results per request.")
    offset: int = Field(0, ge=0, le=9800, description="Number of results to skip.")
    rerank: list[Annotated[str, Field(json_schema_extra=_list_methods)]] | None = Field(
        None,
        max_length=10,
        description="Re-ranking methods, in order; none if empty; by default `usual` of `info`.",
    )
    model: str | None = Field(None, max_length=500, description="Default: the first of `info`.")
    filter: Filter | None = None
    include_self: bool = Field(False, description="Include the query itself if it is indexed.")
    sort: HitOrder | None = Field(
        None, description="Sort the best 1,000 results by this; `rank` does not change."
    )

    @property
    def parts(self) -> list[QueryPart]:
        """All photos of the query."""
        first = [] if self.photo is None else [QueryPart(photo=self.photo, box=self.box)]
        return first + self.further

    @model_validator(mode="after")
    def _asks_for_something(self) -> "SearchRequest":
        if self.photo is None and not (self.text or "").strip():
            raise ValueError("a search needs a photo or a text")
        if self.photo is None and (self.box or self.further):
            raise ValueError("a box and further photos need a photo, not only a text")
        return self


class HitInfo(PhotoInfo):
    """A search result."""

    score: float
    rank: int = Field(description="Rank, from 1.")
    same_label: bool | None = Field(
        None, description="Whether it has the label of the query, if both have one."
    )
    inliers: int | None = Field(None, description="Number of inliers, if verified.")
    same_scene: bool | None = Field(
        None, description="Whether `inliers` reaches `threshold`; null if not verified."
    )
    threshold: int | None = Field(None, description="Fewer inliers can occur by chance.")
    probability: float | None = Field(
        None, description="Probability that it shows the same place, if the model is calibrated."
    )
    moved: int | None = Field(None, description="Ranks gained (+) or lost (-) by re-ranking.")
    verdict: Verdict | None = Field(
        None,
        description="`same`: the same place, confirmed by matching details; `probable`: probably "
        "the same place; `similar`: similar only. Null if only similarities are known.",
    )


class SearchAnswer(BaseModel):
    """Search results. As NDJSON, one line per stage; the last line is complete."""

    stage: str = Field(description="`search`, `expand`, or the name of another method.")
    complete: bool
    awaited: list[str] = Field(description="The stages still to come.")
    query: PhotoInfo | None = Field(None, description="Null for a search by text alone.")
    text: str | None = None
    hits: list[HitInfo]
    likely: int | None = Field(
        None, description="How many of all results are `same` or `probable`; null if not judged."
    )
    more: bool = Field(description="Whether a higher offset gives more results.")
    seconds: dict[str, float] = Field(description="Time of `describe` and of each stage.")


class AttentionRequest(Asked):
    """A point in a photo."""

    photo: PhotoId
    x: Pixel = Field(description="In pixels of the upright original.")
    y: Pixel
    layer: int = Field(5, ge=1, le=6)
    model: str | None = Field(None, max_length=500)


class AttentionAnswer(BaseModel):
    """An attention map: one value per cell of the layer, row by row, with sum 1."""

    layer: int
    rows: int
    columns: int
    row: list[float]
    cell: Pair[int] = Field(description="Row and column of the cell that contains the point.")
    extent: Pair[float] = Field(
        description="Number of columns and rows that the photo covers; may be fractional."
    )


class PairRequest(Asked):
    """Two photos to compare."""

    a: PhotoId
    b: PhotoId
    box: BoxCorners | None = Field(None, description="The part of A to use.")


class MatchAnswer(BaseModel):
    """Keypoint matches of two photos."""

    keypoints: Pair[int] = Field(description="Number of keypoints of A and of B.")
    matches: int = Field(description="Number of matches before geometric verification.")
    inliers: list[list[float]] = Field(description="x and y in A and x and y in B of each inlier.")
    rejected: list[list[float]] = Field(
        description="The same of matches that do not fit, at most 100, evenly chosen."
    )
    same_scene: bool = Field(description="Whether there are at least `threshold` inliers.")
    threshold: int = Field(description="Fewer inliers can occur by chance.")
    a: PhotoInfo
    b: PhotoInfo


class MapPoint(BaseModel):
    """A photo on the map."""

    id: str
    name: str
    label: str | None = None
    taken: str | None = Field(None, description="Capture time by the camera's clock, if known.")
    position: Pair[float] | None = Field(None, description="Latitude and longitude, if known.")
    thumbnail: str
    x: float = Field(ge=0, le=1, description="From left to right.")
    y: float = Field(ge=0, le=1, description="From top to bottom.")


class MapAnswer(BaseModel):
    """All photos, or an even sample of very many, similar ones close together."""

    points: list[MapPoint]
    total: int = Field(description="Number of photos on the map; `points` may be fewer.")
    method: str = Field(description="`tsne`, or `pca` for a few photos.")


class Unfinished(BaseModel):
    """Not finished yet: ask again."""

    seconds: float = Field(ge=0, description="Time spent so far.")


class JobStarted(BaseModel):
    """A job has started; `jobs/{job}` returns its progress."""

    job: str


class Failed(BaseModel):
    """A photo that was not added, and the reason."""

    name: str
    error: str


class Job(BaseModel):
    """Progress of adding photos or of an update of the collection."""

    state: Literal["running", "done"]
    done: int = Field(description="Number of photos processed.")
    total: int = Field(description="Number of photos to process; 0 while an update is scanning.")
    added: list[str] = Field(description="Ids of the photos that are now indexed.")
    known: list[str] = Field(default=[], description="Ids in `added` that were indexed before.")
    failed: list[Failed]
    changes: dict[str, int] | None = Field(
        default=None,
        description="Numbers of new, changed, moved, deleted and skipped photos of an update.",
    )
    error: str | None = Field(default=None, description="Why an update failed.")


_WAIT = {"description": "Seconds, with a 429 or 503.", "schema": {"type": "integer", "minimum": 1}}
ERRORS: dict[int | str, dict[str, Any]] = {
    "default": {"model": Error, "description": "An error.", "headers": {"Retry-After": _WAIT}}
}
