"""`solar demo`: search generated photos, and your own, offline."""

import sys
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from solar.cli.options import Device, OptionalOutput
from solar.cli.printing import print_table, show
from solar.cli.progress import photo_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from solar.demo.sample import Sample, SampleAnswer
    from solar.describe.progress import Progress
    from solar.models import RetrievalNet
    from solar.storage.types import Hit

EXAMPLE = "Example: solar demo ~/Pictures --serve"

_MOST = 5  # answers shown


def demo(
    photos: Annotated[Path | None, typer.Argument(metavar="FOLDER")] = None,
    landmarks: Annotated[int, typer.Option(min=2, max=20)] = 6,
    views: Annotated[int, typer.Option(min=2, max=20)] = 4,
    folder: OptionalOutput = None,
    serve: bool = False,
    device: Device = None,
) -> None:
    """Search generated photos, then your own: a first look.

    Photos and indexes are written to the cache, or to the folder of -o.

    Options:
        photos: Your own photos, searched after the generated ones.
        landmarks: Buildings to generate.
        views: Photos per building.
        serve: Open the web app on the last index.
    """
    from solar.demo import sample
    from solar.files import cache_directory
    from solar.images import find_photos
    from solar.models import RetrievalNet, load

    if photos is not None:
        find_photos(photos)  # a mistyped name fails at once
    model = load(device=device)
    assert isinstance(model, RetrievalNet)
    place = folder or cache_directory() / "demo"
    known = {"landmarks": landmarks, "views": views}
    last, taken = _watched(lambda shown: sample.toy_sample(place, model, **known, progress=shown))
    show(f"{last.photos} generated photos of {landmarks} buildings, {views} of each, {taken}.")
    show("Generated, so that the demo needs no download and the correct answers are known.")
    show(f"Query: {last.query}, another view of the first building. Best results:")
    answer = _answer(last, model, min(views, _MOST - 1) + 1)
    scores = sample.score(last)
    show(
        f"With each of the {last.photos} photos as the query, the first result is correct for "
        f"{scores['recall@1']:.1f} % (mAP {scores['mAP']:.1f} %)."
    )
    if photos is not None:
        show(f"With pictures: {answer.page}")
        show("")
        last, taken = _watched(
            lambda shown: sample.folder_sample(photos, place, model, progress=shown)
        )
        some = "" if last.photos == last.found else f" of the {last.found:,}"
        show(f"{last.photos}{some} photos in {photos}, {taken}.")
        query = last.query.removeprefix("name:")
        show(f"Query: {query}, which has a similar photo. Best results:")
        answer = _answer(last, model, _MOST)
    show(f"With pictures: {answer.page}")
    if photos is None:
        show(f"Your photos:   {_command()} demo ~/Pictures --serve")
    elif last.photos < last.found:
        show(f"All of them:   {_command()} index build {quote(str(photos))} -o photos.solar")
    if serve:
        from solar.web.serving import serve as run

        run(str(last.index), port=0, open_browser=sys.stdout.isatty(), say=show)
    else:
        show(f"In a browser:  {_command()} serve {quote(str(last.index))} --open")


def _watched(make: "Callable[[Progress], Sample]") -> "tuple[Sample, str]":
    start = perf_counter()
    with photo_progress() as shown:
        made = make(shown)
    seconds = perf_counter() - start
    return made, f"indexed in {seconds:.1f} s" if shown.done else "already indexed"


def _answer(sample: "Sample", model: "RetrievalNet", count: int) -> "SampleAnswer":
    """Search and print the results: correct or not, or how many points match the query."""
    from rich.text import Text

    from solar.demo.sample import ask
    from solar.ranking.verdict import WORDS, verdict

    def mark(hit: "Hit") -> Text:
        if not sample.label:
            colours = {"same": "green", "probable": "yellow", "similar": ""}
            return Text(WORDS[verdict(hit)], colours[verdict(hit)])
        right = sample.is_right(hit.path)
        return Text("✓ same building", "green") if right else Text("✗ another building", "red")

    answer = ask(sample, model, count)
    rows = [(n, f"{hit.score:.3f}", hit.path, mark(hit)) for n, hit in enumerate(answer.hits, 1)]
    show("")
    print_table(rows, ("", "similarity", "photo", ""), right={"similarity"})
    show("")
    return answer


def _command() -> Path | str:
    started = Path(sys.argv[0])
    return started if started.name == "solar" else "solar"
