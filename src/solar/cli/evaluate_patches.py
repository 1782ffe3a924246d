"""`solar evaluate-patches`: descriptors of patches on HPatches and PhotoTour."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from solar.cli import options
from solar.cli.completion import patch_describers
from solar.cli.evaluate import name_models
from solar.cli.printing import print_report
from solar.cli.progress import steps
from solar.errors import SolarError
from solar.evaluation.table_text import Table, number

if TYPE_CHECKING:
    from solar.datasets.patches.hpatches import HPatches
    from solar.evaluation.protocols.hpatches import HPatchesResult
    from solar.evaluation.protocols.patch_describers import Describe

EXAMPLE = "Example: solar evaluate-patches hpatches solar-local-345 sift --root hpatches-release/"


def evaluate_patches(
    what: Annotated[Literal["hpatches", "phototour"], typer.Argument(metavar="BENCHMARK")],
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", autocompletion=patch_describers)
    ] = None,
    root: options.Root = None,
    make: Annotated[Path | None, typer.Option(metavar="SEQUENCES")] = None,
    descriptors: Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER")] = None,
    tasks: str = "matching,verification,retrieval",
    split: str = "all",
    lists: Annotated[Path | None, typer.Option(metavar="FOLDER")] = None,
    average: options.Average = "trapezoid",
    shrink: Literal["area", "bilinear"] = "area",
    subset: str = "liberty,notredame,yosemite",
    convention: str = "hardnet",
    keypoints: options.Keypoints = 500,
    seed: options.Seed = 0,
    device: options.Device = None,
    output: options.OptionalOutput = None,
    verbose: bool = False,
    style: options.TableFormat = "text",
    json: options.Json = False,
) -> None:
    """Compare descriptors of patches on HPatches or PhotoTour.

    Prints mAP of the three HPatches tasks, FPR95 of PhotoTour.

    Options:
        what: hpatches or phototour.
        models: Patch models, sift or rootsift; NAME=MODEL sets a name.
        make: hpatches: cut the patches from sequences of photos (1.jpg … 6.jpg, H_1_2 …); -o keeps
            them.
        descriptors: hpatches: precomputed descriptors, SEQUENCE/ref.csv and so on.
        tasks: hpatches: tasks to run, comma-separated.
        split: hpatches: all, or the test part of a, b, c, illum, view or full.
        lists: hpatches: a clone of hpatches-benchmark, or the folder of its splits.json and lists;
            default: generated lists.
        shrink: How patches become 32×32: by area means, or bilinear as OpenCV does.
        subset: phototour: subsets to use, comma-separated.
        convention: phototour: FPR95 as in hardnet or hynet.
        verbose: hpatches: also print every sequence.
    """
    from solar.evaluation.protocols.patch_describers import patch_describer

    describers = {
        name: patch_describer(of, device=device, shrink=shrink)
        for name, of in name_models(models or ()).items()
    }
    shown = "json" if json else style
    if what == "phototour":
        if not describers or descriptors:
            raise SolarError("Say what to evaluate: a patch model, sift or rootsift.")
        if root is None:
            raise SolarError("Say where the PhotoTour subsets are with --root.")
        _phototour(describers, root, options.words(subset), convention, shown)
        return

    from solar.datasets.patches.hpatches import read_descriptors
    from solar.evaluation.protocols.hpatches import evaluate_hpatches, find_split

    folders = _folders(descriptors or ())
    if not describers and not folders:
        raise SolarError("Say what to evaluate: a patch model, sift, rootsift or --descriptors.")
    if set(describers) & set(folders):
        raise SolarError("Two descriptors have the same name: tell them apart with NAME=….")
    how: dict[str, Any] = {"split": split, "lists": lists, "average": average, "seed": seed}
    how["tasks"] = options.words(tasks)
    measure: Callable[..., HPatchesResult] = partial(evaluate_hpatches, **how)
    sequences = None if split == "all" else find_split(split, lists)
    results = {}
    if describers or make is not None:
        data = _patches(root, make, output, sequences, seed=seed, keypoints=keypoints)
        with steps() as progress:
            for name, describe in describers.items():
                watch = progress.named(f"Describing with {name}")
                results[name] = measure(data, describe, progress=watch)
    for name, folder in folders.items():
        results[name] = measure(read_descriptors(folder, sequences))
    _print_hpatches(results, style=shown, verbose=verbose)


def _folders(descriptors: Sequence[str]) -> dict[str, Path]:
    found = {}
    for given in descriptors:
        name, equals, folder = given.partition("=")
        path = Path(folder if equals else given)
        found[name if equals else path.name] = path
    return found


def _patches(
    root: Path | None,
    make: Path | None,
    output: Path | None,
    sequences: Sequence[str] | None,
    **cutting: int,
) -> "HPatches":
    from solar.datasets.patches.hpatches import read_hpatches
    from solar.datasets.patches.hpatches_cut import make_hpatches

    if make is not None:
        if root is not None:
            raise SolarError("--root reads patches and --make cuts them: give one of the two.")
        return make_hpatches(make, output, **cutting)
    if output is not None:
        raise SolarError("-o keeps the patches of --make: use it only with --make.")
    if root is None:
        raise SolarError("Say where the patches are with --root, or cut them with --make.")
    return read_hpatches(root, sequences)


def _print_hpatches(results: Mapping[str, "HPatchesResult"], *, style: str, verbose: bool) -> None:
    """A row per descriptor, with `verbose` also per sequence; in percent."""
    from solar.evaluation.protocols.hpatches import LEVELS

    def cells(values: Sequence[float]) -> list[str]:
        return [number(100 * value, 2) for value in (sum(values) / len(values), *values)]

    first = next(iter(results.values()))
    head = [[""], *([task, name] for task in first.tasks for name in ("mAP", *LEVELS.values()))]
    rows = [
        [name, *(c for task in found.tasks for c in cells([*found.levels(task).values()]))]
        for name, found in results.items()
    ]
    groups = [rows]
    for sequence in first.matching if verbose else ():
        lines = [
            [f"{sequence}: {name}", *cells([ap for ap, _ in found.matching[sequence].values()])]
            for name, found in results.items()
            if sequence in found.matching
        ]
        groups.append([line + [""] * (len(head) - len(line)) for line in lines])
    points = f"{len(first.matching)} sequences, " if first.matching else ""
    lists = "; ".join(f"{task} lists {what}" for task, what in first.lists.items())
    note = f"{points}split {first.split}, {first.average} AP, in percent. {lists}".strip()
    data = {name: found.to_dict() for name, found in results.items()}
    print_report(style, data, Table(head, groups, note))


def _phototour(
    describers: "Mapping[str, Describe]",
    root: Path,
    subsets: Sequence[str],
    convention: str,
    style: str,
) -> None:
    """Print FPR95 of every descriptor on every subset, in percent."""
    from solar.datasets.patches.phototour import read_phototour
    from solar.evaluation.protocols.phototour import evaluate_phototour

    found: dict[str, dict[str, Any]] = {name: {} for name in describers}
    with steps() as progress:
        for subset in subsets:
            data = read_phototour(root, subset)
            for name, describe in describers.items():
                watch = progress.named(f"{name} on {subset}")
                result = evaluate_phototour(data, describe, convention=convention, progress=watch)
                found[name][subset] = result.to_dict()
    rows = []
    for name, results in found.items():
        rates = [results[subset]["FPR95"] for subset in subsets]
        rows.append([name, *(number(rate, 2) for rate in [*rates, sum(rates) / len(rates)])])
    note = f"FPR95 in percent, as {convention} counts it: lower is better."
    print_report(style, found, Table([[""], *([s] for s in (*subsets, "mean"))], [rows], note))
