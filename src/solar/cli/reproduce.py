"""`solar reproduce`: the paper's tables and figures, published numbers beside measured ones."""

from typing import Annotated, Any, Literal

import typer

from solar.cli import options
from solar.cli.completion import any_models
from solar.cli.evaluate import settings_of
from solar.cli.printing import print_report, say
from solar.cli.progress import steps
from solar.evaluation.settings import EvaluationSettings

EXAMPLE = "Example: solar reproduce table2 --root data/ --dry-run"

_SETTINGS = {
    "How to measure": (
        *("root", "distractors", "codebook", "published", "size", "scales"),
        *("device", "backend", "compress"),
    )
}


@options.with_settings(EvaluationSettings, _SETTINGS)
def reproduce(
    which: Annotated[str, typer.Argument(metavar="WHICH")],
    changes: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE")] = None,
    rows: Annotated[
        list[str] | None, typer.Option(metavar="ROW", autocompletion=any_models)
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1)] = None,
    run: options.Run = None,
    train: Annotated[bool, typer.Option("--train/--no-train")] = True,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="SET")] = None,
    queries: Annotated[list[str] | None, typer.Option("--query")] = None,
    count: Annotated[int, typer.Option(min=1)] = 3,
    top: Annotated[int, typer.Option(min=1)] = 7,
    level: Literal["easy", "medium", "hard"] | None = None,
    exponents: str | None = None,
    dry_run: bool = False,
    style: options.TableFormat = "text",
    json: options.Json = False,
    **given: Any,
) -> None:
    """Reproduce a table or figure of the paper beside its numbers.

    Says first what is missing, where it comes from, how large it is and how long it
    takes here; trains what has to be trained. Run it again to resume. Tables (text,
    Markdown, LaTeX, JSON) and pictures are written to --run, by default
    runs/reproduce.

    Options:
        which: table1, table2; figure1, figure3 (attention maps); figure4 (rankings); figure5 (mAP
            against the GeM exponent p); figure6 (patches on HPatches); ubc (patches on PhotoTour);
            speed (and memory).
        changes: Changes to every recipe, such as epochs=10.
        rows: A row as printed, its recipe or weights alone, or another network as NAME=MODEL;
            repeatable; for figures the models, the baseline first. Default: all with published
            weights or a recipe.
        seeds: Number of trained networks per row; default: 3 for ubc and figure6, else 1.
        train: Train the rows that have a recipe.
        sets: Measure on this set, as for solar evaluate; repeatable; default: roxford5k and
            rparis6k (figure4: roxford5k).
        queries: For figures 1, 3 and 4: a query photo to show; repeatable.
        count: For figures 3 and 4: number of queries; for figure4 those on which two models differ
            most.
        top: For figure4: results per query.
        level: For figure4: easy, medium or hard; default: the hardest of the set.
        exponents: For figure5: exponents, such as 1,3,10.
        dry_run: Only print what would be done.
    """
    from solar.reproduction.reproduce import reproduce as work

    chosen: dict[str, Any] = {
        **{"rows": rows, "sets": sets, "queries": queries, "changes": changes, "run": run},
        **{"seeds": seeds, "train": train, "count": count, "top": top, "level": level},
        "exponents": options.parse_scales(exponents, "--exponents"),
    }
    done = work(
        which,
        settings=settings_of(given),
        dry_run=dry_run,
        watch=steps,
        say=_say_lines,
        **{name: value for name, value in chosen.items() if value is not None},
    )
    print_report("json" if json else style, done.data, done.table)
    for file in done.files:
        say(f"→ {file}")


def _say_lines(text: str) -> None:
    for line in text.splitlines():
        say(line)
