"""`solar data`: public datasets, and training sets of your own photos."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solar.cli.help import Commands
from solar.cli.options import Inliers, Json, LocalFeatures, Output, Root, Seed, Verify
from solar.cli.printing import print_json, print_skipped, print_table, say, show
from solar.cli.progress import steps

if TYPE_CHECKING:
    from solar.datasets.labelled.build import BuiltTrainingSet
    from solar.datasets.public.check import DatasetReport


app = Commands(help="Download public datasets; build training sets from your photos.")

_Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from `solar data list`.")]
_ROOT = Path("data")
_Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="SUBSET",
        help="Google Landmarks v2: clean (what models are trained on; the default), train (all "
        "photos), index, test or labels (CSV files only); repeatable.",
    ),
]


@app.command("list", epilog="Example: solar data list")
def list_datasets(json: Json = False) -> None:
    """List the datasets with their size and terms."""
    from solar.datasets.public.registry import datasets

    if json:
        print_json(
            [{**asdict(d), "download": d.download, "unpacked": d.unpacked} for d in datasets()]
        )
        return

    rows = [
        (
            *(d.name, d.about, f"{d.photos:,}", _gigabytes(d.download), _gigabytes(d.unpacked)),
            f"{d.terms} {d.page}",
        )
        for d in datasets()
    ]
    numbers = ("photos", "download", "on disk")
    print_table(rows, ("name", "what", *numbers, "terms"), right=numbers)


@app.command("get", epilog="Example: solar data get roxford5k --root data/")
def get(
    name: _Name,
    root: Root = _ROOT,
    release: str = "",
    only: _Only = None,
    keep_archives: bool = False,
    again: bool = False,
    check_space: Annotated[bool, typer.Option("--check-space/--ignore-space")] = True,
) -> None:
    """Download and unpack a dataset; run it again to resume.

    SOLAR_MIRRORS names mirrors to try first; with SOLAR_OFFLINE=1 nothing is downloaded.

    Options:
        release: Oxford and Paris: blurred (faces blurred; current) or original.
        keep_archives: Keep the archives in NAME/archives.
        again: Also unpack archives that were unpacked before.
        check_space: Stop if the disk looks too small.
    """
    from solar.datasets.public import fetch, registry

    root = root or _ROOT
    dataset = registry.find(name)
    say(f"{dataset.name}: {dataset.terms} {dataset.page}")
    folder = fetch.get(
        name,
        root,
        release=release,
        only=only or (),
        keep_archives=keep_archives,
        again=again,
        check_space=check_space,
        say=say,
    )
    check = f"solar data check {name} --root {root}{_chosen(only)}"
    say(f'{name} is in {folder}; "{check}" checks every file.')


@app.command("check", epilog="Example: solar data check roxford5k --root data/ --json")
def check(name: _Name, root: Root = _ROOT, only: _Only = None, json: Json = False) -> None:
    """Report present and missing files; exit code 1 if incomplete."""
    from solar.datasets.public import check as checking

    root = root or _ROOT
    with steps() as progress:
        report = checking.check(name, root, only=only or (), progress=progress)
    if json:
        print_json(_as_json(report))
    else:
        for line in _as_lines(report, root):
            show(line)
    if not report.complete:
        raise typer.Exit(1)


@app.command("build", epilog="Example: solar data build photos/ -o photos.json --verify")
def build(
    source: Annotated[list[Path], typer.Argument(metavar="SOURCE")],
    output: Output,
    root: Root = None,
    verify: Verify = False,
    least: Inliers = None,
    local: LocalFeatures = None,
    val_fraction: float = 0.0,
    seed: Seed = 0,
    processes: Annotated[int, typer.Option(min=1)] = 1,
    json: Json = False,
) -> None:
    """Build a training set: group photos, list unreadable files.

    With --verify only verified pairs are positives (by default with 12 inliers).
    -o takes a .json or, for a folder of Google Landmarks 2018, a .pkl for the
    published code.

    Options:
        source: A folder sorted as landmark/photo.jpg, tar shards of the same, a CSV of
            path,landmark, or a .json written before (to change --min-inliers or --val-fraction).
        val_fraction: Fraction of the landmarks to hold out for validation.
        processes: With --verify: number of worker processes.
    """
    if output.suffix.lower() == ".pkl":
        _build_gl18(source, output, seed, json)
        return

    from solar.datasets.labelled.build import build_training_set
    from solar.datasets.labelled.cleaning import Geometry

    with steps() as progress:
        built = build_training_set(
            source,
            output,
            root=root,
            verify=verify,
            least=least,
            val_fraction=val_fraction,
            seed=seed,
            processes=processes,
            geometry=Geometry(model=local or "rootsift"),
            progress=progress,
        )
    print_skipped(built.unreadable, "--json")
    if json:
        print_json(asdict(built))
    else:
        _print_built(built)
        show(f"Written to {output}.")


def _print_built(built: "BuiltTrainingSet") -> None:
    rows = {
        "photos": built.photos,
        "landmarks": built.landmarks,
        "  with one photo": built.singletons,
        "  held out for validation": built.held_out,
        "photos with positives": built.queries,
        "pairs of positives": built.positives,
        "photos that cannot be read": len(built.unreadable),
    }
    for what, count in rows.items():
        show(f"{what:<27}{count:>9,}")


def _build_gl18(source: list[Path], output: Path, seed: int, json: bool) -> None:
    from solar.datasets.public.gl18 import build_gl18, write_gl18

    database = build_gl18(source[0], seed=seed)
    write_gl18(output, database)
    counts = {
        part: {"photos": len(found["cids"]), "queries": len(found["qidxs"])}
        for part, found in database.items()
    }
    if json:
        print_json(counts)
        return
    for part, numbers in counts.items():
        show(f"{part}: {numbers['photos']:,} photos, {numbers['queries']:,} queries.")


def _as_json(report: "DatasetReport") -> dict[str, object]:
    return {
        "dataset": report.dataset,
        "folder": str(report.folder),
        "complete": report.complete,
        "release": report.release or None,
        "items": [{**asdict(item), "complete": item.complete} for item in report.items],
    }


def _as_lines(report: "DatasetReport", root: Path) -> list[str]:
    lines = []
    for item in report.items:
        counts = f"{item.found:,} of {item.expected:,}"
        more = ", …" if item.expected - item.found > len(item.missing) else ""
        examples = f" (missing: {', '.join(item.missing)}{more})" if item.missing else ""
        lines.append(f"{'ok' if item.complete else '--'}  {item.what}: {counts}{examples}")
        lines += [f"    {item.note}"] if item.note else []
    if report.release:
        lines.append(f"    release: {report.release}")
    if report.complete:
        return [*lines, f"{report.dataset} is complete in {report.folder}."]
    more = _chosen(report.only) + (" --again" if report.unpacked else "")
    remedy = f"solar data get {report.dataset} --root {root}{more}"
    return [*lines, f'{report.dataset} is not complete in {report.folder}; try "{remedy}".']


def _chosen(only: Iterable[str] | None) -> str:
    return "".join(f" --only {subset}" for subset in only or ())


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size < 10e9 else f"{size / 1e9:,.0f} GB"
