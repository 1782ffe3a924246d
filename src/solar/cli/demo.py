"""`solar demo`: the main job on generated photos and on one's own, offline."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from solar.models import RetrievalNet
    from solar.web.sample import Sample

EXAMPLE = "Example: solar demo ~/Pictures --serve"


def demo(
    photos: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Photos of yours, searched after the generated ones."
        ),
    ] = None,
    landmarks: Annotated[int, typer.Option(min=2, max=20, help="Buildings to generate.")] = 6,
    views: Annotated[int, typer.Option(min=2, max=20, help="Photos of each.")] = 4,
    folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where everything goes; the cache if not given."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then open the web app on what was indexed last.")
    ] = False,
) -> None:
    """Search generated photos, and yours: a first look."""
    from solar.cli.printing import output, photo_progress
    from solar.images import find_photos
    from solar.models import RetrievalNet, load
    from solar.models.zoo import cache_directory
    from solar.web import sample

    mine = photos and photos.expanduser()
    if mine is not None:
        find_photos(mine)  # a mistyped name is told at once
    model = load()
    assert isinstance(model, RetrievalNet)
    place = folder or cache_directory() / "demo"
    with photo_progress() as shown:
        toy = sample.toy_sample(
            place, model, landmarks=landmarks, views=views, progress=shown.advance
        )
    console = output()
    console.print(
        f"{toy.photos} generated photos of {landmarks} buildings. Like one more photo of the first "
        f"building, which {views} of them show:\n",
        soft_wrap=True,
    )
    _print_answer(toy, model)
    told = sample.score(toy)
    console.print(
        f"Every photo asked for the others of its building: mAP {told['mAP']:.1f} %, the first "
        f"answer is right for {told['recall@1']:.1f} %.",
        soft_wrap=True,
    )
    last = toy
    if mine is not None:
        with photo_progress() as shown:
            last = sample.folder_sample(mine, place, model, progress=shown.advance)
        some = "" if last.photos == last.found else f" of the {last.found:,}"
        name = last.query.removeprefix("name:")
        console.print(
            f"\n{last.photos}{some} photos in {mine}. Like {name}:\n", soft_wrap=True, markup=False
        )
        _print_answer(last, model)
        if last.photos < last.found:
            console.print(
                f"For all of them: {_command()} index build {mine} -o photos.solar",
                soft_wrap=True,
                markup=False,
            )
    if serve:
        from solar.web.serving import serve as run

        run(str(last.index), port=0, open_browser=sys.stdout.isatty(), say=typer.echo)
    else:
        console.print(f"\nIn a browser: {_command()} serve {last.index} --open", soft_wrap=True)


def _print_answer(sample: "Sample", model: "RetrievalNet") -> None:
    """A table of what was found, and where its page is."""
    from rich.table import Table
    from rich.text import Text

    from solar.cli.printing import output
    from solar.web.sample import ask

    answer = ask(sample, model)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column()
    table.add_column("similarity", justify="right")
    table.add_column("photo")
    for number, hit in enumerate(answer.hits, 1):
        mark = Text("✓ right", "green") if sample.is_right(hit.path) else Text("✗ wrong", "red")
        row = (str(number), f"{hit.score:.3f}", Text(hit.path))
        table.add_row(*row, *([mark] if sample.label else []))
    console = output()
    console.print(table)
    console.print(f"\nWith pictures, and where the network looks: {answer.page}", soft_wrap=True)


def _command() -> Path | str:
    started = Path(sys.argv[0])
    return started if started.name == "solar" else "solar"
