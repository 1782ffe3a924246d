"""`solar search`: photos like a photo, or as words say."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli.completion import rerank_methods
from solar.cli.help import METHODS
from solar.cli.options import (
    AllowedRoots,
    Backend,
    Boxes,
    Csv,
    Device,
    Html,
    Json,
    LocalFeatures,
    Model,
    MovedPhotos,
    Nearest,
    VerifyTop,
    boxes,
)

if TYPE_CHECKING:
    from solar.ranking.query import Part
    from solar.storage.types import Hit, Photo


EXAMPLE = "Example: solar search photos.solar query.jpg --box 41,30,280,201 --html page.html"

# What programs read of a hit, as JSON or as CSV.
_FACTS = ("path", "absolute", "score", "probability", "inliers", "same_scene", "threshold")

_JUDGED = "An indexed path or a file; repeatable."


def search(
    index: Annotated[
        str,
        typer.Argument(
            metavar="INDEX",
            help="A folder, milvus://host:port/collection, or the address of a running "
            "`solar serve`: http://host:8000.",
        ),
    ],
    queries: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PHOTO",
            help="Query photos, whose embeddings are averaged: files, - for standard input, or "
            "paths of indexed photos (name:rome/12.jpg if there is also a file of that "
            "name).",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help='Search by text, such as "a red door", alone or together with a photo. Needs an '
            "index whose model understands text (CLIP, SigLIP).",
        ),
    ] = None,
    k: Nearest = 10,
    box: Boxes = None,
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
            f"verify if possible. {METHODS}",
            autocompletion=rerank_methods,
        ),
    ] = None,
    no_rerank: Annotated[
        bool, typer.Option("--no-rerank", help="Rank by similarity alone.")
    ] = False,
    verify_top: VerifyTop = 50,
    local_features: LocalFeatures = None,
    backend: Backend = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only photos with tag=night, path=rome/ (a prefix), width>=1024, …"),
    ] = None,
    near: Annotated[
        str | None,
        typer.Option(
            metavar="LAT,LON,DISTANCE",
            help="Only photos taken near a position, such as 48.858,2.294,500m (degrees; m or km).",
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="Only photos taken on or after a date, such as 2019-07-14.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Only photos taken before a date, such as 2020.")
    ] = None,
    min_probability: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Only photos with at least this probability of showing the same place, such as "
            "0.5.",
        ),
    ] = None,
    model: Model = None,
    include_self: Annotated[
        bool, typer.Option("--include-self", help="Include the query itself if it is indexed.")
    ] = False,
    device: Device = None,
    json: Json = False,
    csv: Csv = None,
    html: Html = None,
    photos: MovedPhotos = None,
    roots: AllowedRoots = None,
) -> None:
    """Find photos of the same place or object, or by text."""
    given = locals()
    from solar.cli.server_search import found_by_server, is_server
    from solar.errors import SolarError
    from solar.files import refuse_places
    from solar.ranking.rerank import chosen

    if json and csv:
        raise SolarError("--json cannot be combined with --csv: give one of them.")
    refuse_places({"the table": csv, "the page": html})
    conditions = [*(where or []), *_times(after, before)]
    conditions += [] if near is None else [f"near={near}"]
    asked = _parts([_query(query) for query in queries or []], box)
    methods = chosen(rerank)
    if no_rerank and methods:
        raise SolarError(f"--no-rerank cannot be combined with {methods[0]}: give one of them.")
    only = {"min_probability": min_probability, "where": conditions or None}
    only = {name: value for name, value in only.items() if value is not None}
    if is_server(index):
        order = methods if methods or no_rerank else None
        options = {"text": text, "rerank": order, "filter": only, "include_self": include_self}
        hits, known = found_by_server(index, asked, k, given, **options)
    else:
        hits, known = _found_here(asked, methods, conditions, given)
    _say_if_none(hits, only)
    if csv is not None:
        _write_csv([_facts(hit) for hit in hits], csv)
    if json or (html is None and csv is None):
        _tell(hits, text, known, json=json)


def _found_here(
    asked: "list[Part]", methods: list[str], conditions: list[str], given: Mapping[str, Any]
) -> "tuple[list[Hit], Mapping[str, Photo]]":
    """What an index finds, and what it knows of that, by name; writes the page of --html."""
    from solar.cli.printing import say, warnings_as_sentences
    from solar.images.known_roots import shown_roots
    from solar.index import Index
    from solar.index.index import need_vectors
    from solar.ranking.query import with_words
    from solar.ranking.verify import FRESH, VerifySettings

    text, k, photos, html = (given[name] for name in ("text", "k", "photos", "html"))
    every = with_words(asked or None, text)
    opening = Index.open(given["index"], model=given["model"], device=given["device"])
    with opening as opened, warnings_as_sentences():
        if html is not None:
            allowed = given["roots"] or []
            shown_roots(opened.place, opened.roots, photos=photos, given=allowed)
        note, fresh = "", None if methods else FRESH
        if not methods and not given["no_rerank"]:
            methods, why = opened.default_rerank(every, photos=photos)
            note = _note(methods, why)
        verifying = VerifySettings(
            top=given["verify_top"],
            model=given["local_features"],
            backend=given["backend"] or "torch",
            fresh=fresh,
            photos=photos,
        )
        how: dict[str, Any] = {"text": text, "rerank": methods, "where": conditions}
        how |= {name: given[name] for name in ("include_self", "min_probability")}
        how["verify"] = verifying if "verify" in methods else None
        if given["like"] or given["unlike"]:
            how |= {name: given[name] or [] for name in ("like", "unlike")}
            hits = need_vectors(opened).search_like(asked, k, **how)
        else:
            hits = opened.search_mean(asked, k, **how)
        if note and hits:
            say(note)
        if html is not None:
            from solar.files import replacing
            from solar.show.search_page import ranking_page

            page = ranking_page(opened, every, hits, photos=photos)
            with replacing(html) as temporary:
                temporary.write_text(page, encoding="utf-8")
            say(f"{_counted(len(hits), 'photo')} → {html}")
        known = opened.engine.find([hit.path for hit in hits]) if given["json"] else {}
    return hits, known


def _query(text: str) -> str | bytes:
    if text != "-":
        return text
    import sys

    return sys.stdin.buffer.read()


def _parts(queries: list[str | bytes], box: list[str] | None) -> "list[Part]":
    """Queries with their boxes."""
    from solar.ranking.query import Part

    return [Part(*pair) for pair in zip(queries, boxes(box, len(queries)), strict=True)]


def _counted(count: int, one: str) -> str:
    return f"{count} {one}{'s' * (count != 1)}"


def _say_if_none(hits: "list[Hit]", only: Mapping[str, Any]) -> None:
    """Say on standard error that a search with these filters has found nothing."""
    from solar.cli.printing import say

    if not hits:
        say("No photo matches these filters." if only else "Nothing found.")


def _tell(
    hits: "list[Hit]",
    text: str | None,
    known: "Mapping[str, Photo | None]",
    *,
    json: bool,
) -> None:
    """Print what was found, for people or for programs."""
    from solar.cli.printing import print_json

    if json:
        told = {} if text is None else {"text": text}
        rows = [_facts(hit) | _where_and_when(known.get(hit.path)) for hit in hits]
        print_json([row | told for row in rows])
    else:
        _print(hits)


def _times(after: str | None, before: str | None) -> list[str]:
    return [
        condition
        for condition, given in ((f"taken>={after}", after), (f"taken<{before}", before))
        if given is not None
    ]


def _note(methods: list[str], why: str) -> str:
    """What to tell of the ranking that nobody asked for."""
    if methods:
        return "Re-ranked by matching points; --no-rerank ranks by similarity alone."
    return f"Not re-ranked by matching points: {why}" if why else ""


def _facts(hit: "Hit") -> dict[str, Any]:
    return {name: getattr(hit, name) for name in _FACTS}


def _where_and_when(photo: "Photo | None") -> dict[str, Any]:
    return {name: getattr(photo, name, None) for name in ("taken", "position", "camera")}


def _write_csv(rows: list[dict[str, Any]], file: Path) -> None:
    import csv

    from solar.cli.printing import say
    from solar.files import replacing

    with (
        replacing(file) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as out,
    ):
        table = csv.writer(out)
        table.writerow(["rank", *_FACTS])
        table.writerows([rank, *row.values()] for rank, row in enumerate(rows, 1))
    say(f"{_counted(len(rows), 'photo')} → {file}")


def _print(hits: "list[Hit]") -> None:
    from solar.cli.printing import output
    from solar.errors import printable
    from solar.matching.match import compared

    console = output()
    rated = any(hit.probability is not None for hit in hits)
    verified = any(hit.inliers is not None for hit in hits)
    for hit in hits:
        probable = "" if hit.probability is None else f"{100 * hit.probability:.0f} %"
        scene = compared(hit.inliers, hit.threshold)
        columns = (f"{probable:>5}  " if rated else "") + (f"{scene:<26}  " if verified else "")
        shown = f"{hit.score:.4f}  {columns}{printable(hit.path)}"
        console.print(shown, markup=False, soft_wrap=True)
