"""`solar search`: photos like a photo, or as words say."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli.completion import keypoint_models, rerank_methods
from solar.cli.help import METHODS
from solar.cli.options import (
    IndexModel,
    Json,
    KeypointBackend,
    MovedPhotos,
    SearchDevice,
    ShownRoots,
)

if TYPE_CHECKING:
    from solar.search import Hit, Part, Photo

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
            metavar="QUERY",
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
    k: Annotated[int, typer.Option("-k", min=1, help="Number of results.")] = 10,
    box: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X1,Y1,X2,Y2",
            help="Part of the query to search with, in pixels. With several photos, give one "
            "--box per photo, in the same order; - means the whole photo.",
        ),
    ] = None,
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
            help="Re-ranking methods, separated by commas, applied in the given order; default: "
            f"verify if possible. {METHODS}",
            autocompletion=rerank_methods,
        ),
    ] = None,
    no_rerank: Annotated[
        bool, typer.Option("--no-rerank", "--no-verify", help="Rank by similarity alone.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Same as --rerank verify, after all other methods.")
    ] = False,
    verify_top: Annotated[int, typer.Option(min=1, help="Number of best photos to verify.")] = 50,
    local: Annotated[
        str | None,
        typer.Option(
            "--local",
            "--features",
            help="Keypoint descriptor: rootsift (default), sift, orb, akaze or a patch model.",
            autocompletion=keypoint_models,
        ),
    ] = None,
    backend: KeypointBackend = "torch",
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
    model: IndexModel = None,
    include_self: Annotated[
        bool, typer.Option("--include-self", help="Include the query itself if it is indexed.")
    ] = False,
    device: SearchDevice = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header row.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page with the query and the results.")
    ] = None,
    photos: MovedPhotos = None,
    root: ShownRoots = None,
) -> None:
    """Find photos of the same place or object, or by text."""
    given = locals()
    from solar.cli.printing import say, warnings_as_sentences
    from solar.cli.server_search import found_by_server, is_server
    from solar.describe.known_roots import shown_roots
    from solar.errors import SolarError
    from solar.search import Index, need_vectors
    from solar.search.parts import with_words
    from solar.search.rerank import chosen
    from solar.search.verify import FRESH, VerifySettings

    if json and csv:
        raise SolarError("--json cannot be combined with --csv: give one of them.")
    conditions = [*(where or []), *_times(after, before)]
    conditions += [] if near is None else [f"near={near}"]
    asked = _parts([_query(query) for query in queries or []], box or [])
    every = with_words(asked or None, text)
    methods = chosen([*(rerank.split(",") if rerank else []), *(["verify"] if verify else [])])
    if no_rerank and methods:
        raise SolarError(f"--no-rerank cannot be combined with {methods[0]}: give one of them.")
    only = {"min_probability": min_probability, "where": conditions or None}
    only = {name: value for name, value in only.items() if value is not None}
    if is_server(index):
        order = methods if methods or no_rerank else None
        options = {"text": text, "rerank": order, "filter": only, "include_self": include_self}
        hits, known = found_by_server(index, asked, k, given, **options)
        _say_if_none(hits, only)
        _tell(hits, text, known, json=json, csv=csv)
        return
    with Index.open(index, model=model, device=device) as opened, warnings_as_sentences():
        if html is not None:
            shown_roots(opened.place, opened.roots, photos=photos, given=root or [])
        note, fresh = "", None if methods else FRESH
        if not methods and not no_rerank:
            methods, why = opened.usual(every, photos=photos)
            note = _note(methods, why)
        verifying = VerifySettings(
            top=verify_top, model=local, backend=backend, fresh=fresh, photos=photos
        )
        how: dict[str, Any] = {"text": text, "rerank": methods, "where": conditions}
        how |= {"include_self": include_self, "min_probability": min_probability}
        how["verify"] = verifying if "verify" in methods else None
        if like or unlike:
            how |= {"like": like or [], "unlike": unlike or []}
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
        known = opened.engine.find([hit.path for hit in hits]) if json else {}
    _say_if_none(hits, only)
    if html is None or json or csv:
        _tell(hits, text, known, json=json, csv=csv)


def _query(text: str) -> str | bytes:
    if text != "-":
        return text
    import sys

    return sys.stdin.buffer.read()


def _parts(queries: list[str | bytes], boxes: list[str]) -> "list[Part]":
    """Queries with their boxes, of which there are none or as many."""
    from solar.errors import SolarError
    from solar.images import parse_box
    from solar.search import Part

    if boxes and len(boxes) != len(queries):
        raise SolarError(
            f"{_counted(len(queries), 'photo')} and {_counted(len(boxes), 'box', 'boxes')} do not "
            "match: give one --box per photo, in the same order, and --box - for a whole photo."
        )
    wanted = [None if text == "-" else parse_box(text) for text in boxes] or [None] * len(queries)
    return [Part(photo, box) for photo, box in zip(queries, wanted, strict=True)]


def _counted(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"


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
    csv: bool,
) -> None:
    """Print what was found, for people or for programs."""
    from solar.cli.printing import print_json

    if json:
        told = {} if text is None else {"text": text}
        rows = [_facts(hit) | _where_and_when(known.get(hit.path)) for hit in hits]
        print_json([row | told for row in rows])
    elif csv:
        _print_csv([_facts(hit) for hit in hits])
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


def _print_csv(rows: list[dict[str, Any]]) -> None:
    import csv
    import sys

    from solar.errors import printable

    writer, safe = csv.writer(sys.stdout, lineterminator="\n"), sys.stdout.isatty()
    writer.writerow(["rank", *_FACTS])
    for rank, row in enumerate(rows, 1):
        cells = row.values()
        writer.writerow([rank, *(map(printable, cells) if safe else cells)])


def _print(hits: "list[Hit]") -> None:
    from solar.cli.printing import output
    from solar.errors import printable
    from solar.search.matching import compared

    console = output()
    rated = any(hit.probability is not None for hit in hits)
    verified = any(hit.inliers is not None for hit in hits)
    for hit in hits:
        probable = "" if hit.probability is None else f"{100 * hit.probability:.0f} %"
        scene = compared(hit.inliers, hit.threshold)
        columns = (f"{probable:>5}  " if rated else "") + (f"{scene:<26}  " if verified else "")
        shown = f"{hit.score:.4f}  {columns}{printable(hit.path)}"
        console.print(shown, markup=False, soft_wrap=True)
