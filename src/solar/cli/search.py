"""`solar search`: find photos by a photo or a text, in an index or on a server."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli import options
from solar.cli.completion import rerank_methods
from solar.cli.printing import counted, print_json, say, show, warnings_as_sentences
from solar.errors import SolarError
from solar.files import refuse_places, replacing, writing
from solar.ranking.rerank import METHODS

if TYPE_CHECKING:
    from solar.client import Client, ServerPhoto
    from solar.index.photo_index import PhotoIndex
    from solar.ranking.query import Part
    from solar.ranking.verify import VerifySettings
    from solar.storage.types import Hit, Photo


EXAMPLE = "Example: solar search photos.solar query.jpg --box 41,30,280,201 --html page.html"

# Fields of a hit in JSON and CSV.
_FACTS = ("path", "absolute", "score", "probability", "inliers", "same_scene", "threshold")
# Parameters that need the index itself, not its server.
_LOCAL = (
    *("like", "unlike", "verify_top", "local_features", "backend", "model"),
    *("device", "html", "photos", "roots"),
)

_METHODS = " ".join(f"{name}: {method.summary}" for name, method in METHODS.items())
_JUDGED = "An indexed path or a file; repeatable."


def search(
    context: typer.Context,
    index: Annotated[str, typer.Argument(metavar="INDEX")],
    queries: Annotated[list[str] | None, typer.Argument(metavar="PHOTO")] = None,
    text: str | None = None,
    k: options.Nearest = 10,
    box: options.Boxes = None,
    like: Annotated[
        list[str] | None,
        typer.Option(metavar="PHOTO", help=f"Find more like this photo. {_JUDGED}"),
    ] = None,
    unlike: Annotated[
        list[str] | None,
        typer.Option(metavar="PHOTO", help=f"Find less like this photo. {_JUDGED}"),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD[,METHOD]",
            help="Re-ranking methods, separated by commas, applied in the given order; default: "
            f"verify if possible. {_METHODS}",
            autocompletion=rerank_methods,
        ),
    ] = None,
    no_rerank: bool = False,
    verify_top: options.VerifyTop = 50,
    local_features: options.LocalFeatures = None,
    backend: options.Backend = None,
    where: list[str] | None = None,
    near: Annotated[str | None, typer.Option(metavar="LAT,LON,DISTANCE")] = None,
    after: str | None = None,
    before: str | None = None,
    min_probability: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    model: options.Model = None,
    include_self: bool = False,
    device: options.Device = None,
    json: options.Json = False,
    csv: options.Csv = None,
    html: options.Html = None,
    photos: options.MovedPhotos = None,
    roots: options.AllowedRoots = None,
) -> None:
    """Find photos of the same place or object, or by text.

    Options:
        index: A folder, milvus://host:port/collection, or the address of a running `solar serve`:
            http://host:8000.
        queries: Query photos, whose embeddings are averaged: files, - for standard input, or paths
            of indexed photos (name:rome/12.jpg if there is also a file of that name).
        text: Search by text, such as "a red door", alone or together with a photo. Needs an index
            whose model understands text (CLIP, SigLIP).
        no_rerank: Rank by similarity alone.
        where: Only photos with tag=night, path=rome/ (a prefix), width>=1024, …; of your own
            fields (`solar index add --metadata`): color=red, floor>=3, floor<7.
        near: Only photos taken near a position, such as 48.858,2.294,500m (degrees; m or km).
        after: Only photos taken on or after a date, such as 2019-07-14.
        before: Only photos taken before a date, such as 2020.
        min_probability: Only photos with at least this probability of showing the same place, such
            as 0.5.
        include_self: Include the query itself if it is indexed.
    """
    from solar.images.known_roots import shown_roots
    from solar.index import Index
    from solar.ranking.query import with_words
    from solar.ranking.rerank import chosen
    from solar.ranking.verify import VerifySettings

    if json and csv:
        raise SolarError("--json cannot be combined with --csv: give one of them.")
    refuse_places({"the table": csv, "the page": html})
    asked, methods = _parts(queries or [], box), chosen(rerank)
    if no_rerank and methods:
        raise SolarError(f"--no-rerank cannot be combined with {methods[0]}: give one of them.")
    order = methods if methods or no_rerank else None
    limits = {"taken>=": after, "taken<": before, "near=": near}
    conditions = [f"{limit}{value}" for limit, value in limits.items() if value is not None]
    filters = _without_none(
        {"min_probability": min_probability, "where": [*(where or []), *conditions] or None}
    )
    known: Mapping[str, Photo | None] = {}
    if index.startswith(("http://", "https://")):
        if option := options.first_given(context, _LOCAL):
            raise SolarError(f"A search on a server does not take {option}: leave it out.")
        how = {"text": text, "rerank": order, "filter": filters, "include_self": include_self}
        hits = _found_by_server(index, asked, k, _without_none(how))
        known = {hit.path: hit.photo for hit in hits}
    else:
        settings = VerifySettings(
            top=verify_top, model=local_features, backend=backend or "torch", photos=photos
        )
        how = {"like": like or [], "unlike": unlike or [], "include_self": include_self, **filters}
        with Index.open(index, model=model, device=device) as opened, warnings_as_sentences():
            if html is not None:
                shown_roots(opened.place, opened.roots, photos=photos, given=roots or [])
            shown = with_words(asked or None, text)
            hits = _found_here(opened, shown, order, settings, {"k": k, **how})
            if html is not None:
                _write_page(opened, shown, hits, html, photos)
            if json or csv:
                known = opened.engine.find([hit.path for hit in hits])
    if not hits:
        say("No photo matches these filters." if filters else "Nothing found.")
    if csv is not None:
        _write_csv(hits, known, csv)
    if json:
        texts = {} if text is None else {"text": text}
        print_json([_facts(hit) | _metadata(known.get(hit.path)) | texts for hit in hits])
    elif html is None and csv is None:
        _print(hits)


def _found_here(
    index: "PhotoIndex",
    query: Any,
    methods: list[str] | None,
    verify: "VerifySettings",
    how: dict[str, Any],
) -> "list[Hit]":
    """The hits of an index, re-ranked by default (and said so) if `methods` is None."""
    from dataclasses import replace

    from solar.index.search import SearchSettings
    from solar.ranking.verify import FRESH

    note = ""
    if methods is None:
        verify = replace(verify, fresh=FRESH)
        methods, why = index.default_rerank(query, photos=verify.photos)
        if methods:
            note = "Re-ranked by matching points; --no-rerank ranks by similarity alone."
        elif why:
            note = f"Not re-ranked by matching points: {why}"
    settings = SearchSettings(rerank=methods, verify=verify if "verify" in methods else None, **how)
    *_, last = index.stages(query, settings)
    hits = last.hits
    if note and hits:
        say(note)
    return hits


def _found_by_server(
    address: str, asked: "Sequence[Part]", k: int, how: dict[str, Any]
) -> "list[Hit]":
    """The hits of a server, with the photos as it knows them."""
    from solar.client import Client

    client = Client(address, os.environ.get("SOLAR_TOKEN") or None)
    photos = [_query_photo(client, part.photo) for part in asked]
    boxes = [None if part.box is None else list(part.box) for part in asked]
    further = [
        _without_none({"photo": photo["id"], "box": box})
        for photo, box in list(zip(photos, boxes, strict=True))[1:]
    ]
    first, box = (photos[0], boxes[0]) if asked else (None, None)
    return client.search(first, k, box=box, further=further, **how)


def _query_photo(client: "Client", query: Any) -> "ServerPhoto":
    """A query on the server: files and bytes are uploaded, indexed photos found by their paths."""
    from solar.index.search import BY_NAME

    if isinstance(query, bytes):
        return client.upload(query)
    if not query.startswith(BY_NAME) and os.path.exists(query):  # noqa: PTH110 (any text may come)
        return client.upload(query)
    name = query.removeprefix(BY_NAME)
    photos: list[ServerPhoto] = client.photos(name=name)["photos"]
    for photo in photos:
        if photo["name"] == name:
            return photo
    raise SolarError(
        f"{name} is neither a file nor a photo in the index at {client.address}: check its path."
    )


def _parts(queries: list[str], box: list[str] | None) -> "list[Part]":
    """Queries, - read from standard input, with their boxes."""
    from solar.ranking.query import Part

    photos = [sys.stdin.buffer.read() if query == "-" else query for query in queries]
    cuts = options.boxes(box, len(queries))
    return [Part(*pair) for pair in zip(photos, cuts, strict=True)]


def _without_none(how: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in how.items() if value is not None}


def _facts(hit: "Hit") -> dict[str, Any]:
    return {name: getattr(hit, name) for name in _FACTS}


def _metadata(photo: "Photo | None") -> dict[str, Any]:
    facts = {name: getattr(photo, name, None) for name in ("taken", "position", "camera")}
    return facts | {"tags": photo.tags if photo else (), "fields": photo.fields if photo else {}}


def _write_page(
    index: "PhotoIndex", queries: Any, hits: "list[Hit]", file: Path, photos: Path | None
) -> None:
    from solar.show.search_page import ranking_page

    page = ranking_page(index, queries, hits, photos=photos)
    with replacing(file) as temporary:
        temporary.write_text(page, encoding="utf-8")
    say(f"{counted(len(hits), 'photo')} → {file}")


def _write_csv(hits: "list[Hit]", known: "Mapping[str, Photo | None]", file: Path) -> None:
    """Write a row per hit, with a column for each own field that one of them has."""
    import csv

    from solar.storage.conditions import as_text

    fields = [photo.fields if (photo := known.get(hit.path)) else {} for hit in hits]
    names = sorted({name for one in fields for name in one})

    with writing(file, newline="") as out:
        table = csv.writer(out)
        table.writerow(["rank", *_FACTS, *names])
        for rank, (hit, own) in enumerate(zip(hits, fields, strict=True), 1):
            values = [as_text(own[name]) if name in own else "" for name in names]
            table.writerow([rank, *_facts(hit).values(), *values])
    say(f"{counted(len(hits), 'photo')} → {file}")


def _print(hits: "list[Hit]") -> None:
    from solar.ranking.verdict import WORDS, judged, verdict

    width = max(map(len, WORDS.values())) if judged(hits) else 0
    for hit in hits:
        words = f"{WORDS[verdict(hit)]:<{width}}  " if width else ""
        show(f"{words}{hit.score:.4f}  {hit.path}")
