"""`solar evaluate`: how well photos are found again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from solar.evaluate import Evaluation

EXAMPLE = "Example: solar evaluate photos/ --model solar-r101 --distractors other-photos/"


def evaluate(
    what: Annotated[
        str,
        typer.Argument(
            help="roxford5k, rparis6k, oxford5k or paris6k; a ground truth (.json, .pkl); or a "
            "folder, tar, store or CSV of labelled photos (landmark/photo.jpg)."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="A name from `solar models`, a .safetensors or a published .pth."),
    ] = None,
    root: Annotated[Path | None, typer.Option(help="The folder of the photos.")] = None,
    ground_truth: Annotated[
        Path | None, typer.Option(help="The ground truth file, if it is not in the root.")
    ] = None,
    features: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="DB QUERIES",
            help="Descriptors (.npy, .pt, .mat or a store) in place of a model and photos.",
        ),
    ] = None,
    distractors: Annotated[
        str | None, typer.Option(help="Descriptors or photos that are never right.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Longest side in pixels; the model's own if not given."),
    ] = None,
    scales: Annotated[
        str | None,
        typer.Option(help="Comma-separated scales to average; the model's own if not given."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="A folder that keeps the descriptors for the next run.")
    ] = None,
    average: Annotated[
        str, typer.Option(help="Average precision: trapezoid, as published, or finite.")
    ] = "trapezoid",
    precision: Annotated[
        str | None,
        typer.Option(help="float64 or float32 products; float64 up to 65,536 rows by default."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cuda to compute scores there as well.")
    ] = None,
    per_query: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv", help="Write every query's measures; - adds them to --json."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,
) -> None:
    """Measure how well photos are found again: mAP, precision and recall, in percent."""
    from solar.cli.describe import parse_scales
    from solar.cli.printing import errors, print_json
    from solar.errors import SolarError
    from solar.evaluate import evaluate as measure

    if per_query == "-" and not json:
        raise SolarError("--per-query - goes with --json: name a .csv file otherwise.")
    with _watching() as watch:
        found = measure(
            what,
            model=model,
            root=root,
            ground_truth=ground_truth,
            features=features,
            distractors=distractors,
            size=size,
            scales=None if scales is None else parse_scales(scales),
            cache=cache,
            average=average,
            precision=precision,
            device=device,
            watch=watch,
        )
    for name, why in found.failures.items():
        errors().print(f"Left out {name}: {why}", style="yellow", markup=False, soft_wrap=True)
    if per_query not in (None, "-"):
        found.write_csv(per_query)
    if json:
        print_json(found.to_dict(per_query=per_query == "-"))
    else:
        _print_table(found)


@contextmanager
def _watching() -> Iterator[Callable[[int, int], None]]:
    """A bar over the rows that are ranked, gone when done."""
    from rich.progress import Progress

    from solar.cli.printing import errors

    console = errors()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("Ranking", total=None, visible=False)
        yield lambda done, total: bars.update(bar, completed=done, total=total, visible=True)


def _print_table(found: "Evaluation") -> None:
    from rich.table import Table

    from solar.cli.printing import output

    means = found.to_dict()
    rows = {"": means} if "all" in found.protocols else means
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for name in next(iter(rows.values())):
        table.add_column(name, justify="right")
    for protocol, values in rows.items():
        shown = ("–" if value is None else f"{value:.2f}" for value in values.values())
        table.add_row(protocol, *shown)
    console = output()
    console.print(table)
    console.print(f"{len(found.queries)} queries, in percent.")
