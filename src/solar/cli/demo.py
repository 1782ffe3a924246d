"""`solar demo`: search generated photos, and your own, offline."""

import sys
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from solar.cli.options import Device, OptionalOutput
from solar.cli.printing import output, photo_progress, say
from solar.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text

    from solar.demo.sample import Sample, SampleAnswer
    from solar.describe.progress import Progress
    from solar.models import RetrievalNet
    from solar.storage.types import Hit

EXAMPLE = "Example: solar demo ~/Pictures --serve"

_MOST = 5  # answers shown


def demo(
    photos: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Your own photos, searched after the generated ones."
        ),
    ] = None,
    landmarks: Annotated[int, typer.Option(min=2, max=20, help="Buildings to generate.")] = 6,
    views: Annotated[int, typer.Option(min=2, max=20, help="Photos per building.")] = 4,
    folder: OptionalOutput = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Open the web app on the last index.")
    ] = False,
    device: Device = None,
) -> None:
    """Search generated photos, then your own: a first look.

    Photos and indexes are written to the cache, or to the folder of -o.
    """
    from solar.demo import sample
    from solar.files import cache_directory
    from solar.images import find_photos
    from solar.models import RetrievalNet, load

    mine = photos
    if mine is not None:
        find_photos(mine)  # a mistyped name is told at once
    model = load(device=device)
    assert isinstance(model, RetrievalNet)
    place = folder or cache_directory() / "demo"
    known = {"landmarks": landmarks, "views": views}
    last, taken = _watched(lambda shown: sample.toy_sample(place, model, **known, progress=shown))
    _say(f"{last.photos} generated photos of {landmarks} buildings, {views} of each, {taken}.")
    _say("Generated, so that the demo needs no download and the correct answers are known.")
    _say(f"Query: {last.query}, another view of the first building. Best results:\n")
    answer = _show(last, model, min(views, _MOST - 1) + 1)
    told = sample.score(last)
    _say(
        f"\nWith each of the {last.photos} photos as the query, the first result is correct for "
        f"{told['recall@1']:.1f} % (mAP {told['mAP']:.1f} %)."
    )
    if mine is not None:
        _say(f"With pictures: {answer.page}\n")
        last, taken = _watched(
            lambda shown: sample.folder_sample(mine, place, model, progress=shown)
        )
        some = "" if last.photos == last.found else f" of the {last.found:,}"
        _say(f"{last.photos}{some} photos in {mine}, {taken}.")
        _say(
            f"Query: {last.query.removeprefix('name:')}, which has a similar photo. Best results:\n"
        )
        answer = _show(last, model, _MOST)
    _say(f"\nWith pictures: {answer.page}")
    if mine is None:
        _say(f"Your photos:   {_command()} demo ~/Pictures --serve")
    elif last.photos < last.found:
        _say(f"All of them:   {_command()} index build {quote(str(mine))} -o photos.solar")
    if serve:
        from solar.web.serving import serve as run

        run(str(last.index), port=0, open_browser=sys.stdout.isatty(), say=_say)
    else:
        _say(f"In a browser:  {_command()} serve {quote(str(last.index))} --open")


def _watched(make: "Callable[[Progress], Sample]") -> "tuple[Sample, str]":
    """Make a sample under a progress bar: it, and in what time."""
    start = perf_counter()
    with photo_progress() as shown:
        made = make(shown)
    seconds = perf_counter() - start
    return made, f"indexed in {seconds:.1f} s" if shown.done else "already indexed"


def _show(sample: "Sample", model: "RetrievalNet", count: int) -> "SampleAnswer":
    """Print a table of the results: correct or not, or how many points match the query."""
    from rich.table import Table
    from rich.text import Text

    from solar.demo.sample import ask

    answer = ask(sample, model, count)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column()
    table.add_column("similarity", justify="right")
    table.add_column("photo")
    marks = {True: Text("✓ same building", "green"), False: Text("✗ another building", "red")}
    for number, hit in enumerate(answer.hits, 1):
        row = (str(number), f"{hit.score:.3f}", Text(printable(hit.path)))
        table.add_row(*row, marks[sample.is_right(hit.path)] if sample.label else _verified(hit))
    output().print(table)
    return answer


def _verified(hit: "Hit") -> "Text":
    """Whether enough points of a photo match the query's, where nobody knows what it shows."""
    from rich.text import Text

    if not hit.same_scene:
        return Text()
    return Text(f"✓ same scene: {hit.inliers} points match", "green")


def _say(text: str) -> None:
    for line in text.split("\n"):
        say(line, to=output())


def _command() -> Path | str:
    started = Path(sys.argv[0])
    return started if started.name == "solar" else "solar"
