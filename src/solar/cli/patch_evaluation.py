"""`solar evaluate hpatches` and `solar evaluate phototour`: how good descriptors of patches are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.cli.printing import errors, print_report
from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.datasets.hpatches import HPatches
    from solar.evaluation.hpatches_protocol import HPatchesResult
    from solar.evaluation.patch_describers import Describe

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Choice:
    """What to compare: models, methods by name, and files of descriptors."""

    models: Sequence[str]
    methods: str | None
    descriptors: Sequence[str]
    device: str | None

    def describers(self) -> dict[str, "Describe"]:
        """Name to how it describes patches; files of descriptors are not among them."""
        from solar.cli.figures import name_models
        from solar.evaluation.patch_describers import METHODS, patch_describer

        methods = _words(self.methods or "")
        for method in methods:
            if method not in METHODS:
                raise SolarError(f"There is no method {method!r}: choose {', '.join(METHODS)}.")
        named = name_models([*self.models, *methods])
        return {name: patch_describer(of, device=self.device) for name, of in named.items()}

    def folders(self) -> dict[str, Path]:
        """Name to the folder of its descriptors."""
        found = {}
        for given in self.descriptors:
            name, equals, folder = given.partition("=")
            path = Path(folder if equals else given)
            found[name if equals else path.name] = path
        return found


@dataclass(frozen=True)
class Source:
    """Where patches and lists come from."""

    root: Path | None
    make: Path | None
    output: Path | None
    lists: Path | None
    split: str
    keypoints: int
    seed: int

    def patches(self) -> "HPatches":
        """Read them, or cut them from sequences of photos."""
        from solar.datasets.hpatches import read_hpatches
        from solar.datasets.hpatches_cut import make_hpatches
        from solar.evaluation.hpatches_protocol import find_split

        if self.make is not None:
            if self.root is not None:
                raise SolarError("--root reads patches and --make cuts them: give one of the two.")
            return make_hpatches(self.make, self.output, seed=self.seed, keypoints=self.keypoints)
        if self.output is not None:
            raise SolarError("-o keeps the patches of --make: it goes with --make alone.")
        if self.root is None:
            raise SolarError("Say where the patches are with --root, or cut them with --make.")
        names = None if self.split == "all" else find_split(self.split, self.lists).test
        return read_hpatches(self.root, names)


def hpatches(
    choice: Choice, source: Source, tasks: str, average: str, *, style: str, verbose: bool
) -> None:
    """Print one table of everything that is compared."""
    from solar.datasets.hpatches import read_descriptors
    from solar.evaluation.hpatches_protocol import evaluate_hpatches, find_split

    describers, folders = choice.describers(), choice.folders()
    if not describers and not folders:
        raise SolarError("Say what to evaluate: --model, --methods sift,rootsift or --descriptors.")
    if set(describers) & set(folders):
        raise SolarError("Two descriptors have the same name: tell them apart with NAME=….")
    settings: dict[str, Any] = {
        "tasks": _words(tasks),
        "split": source.split,
        "lists": source.lists,
        "average": average,
        "seed": source.seed,
    }
    results = {}
    if describers or source.make is not None:
        data = source.patches()
        for name, describe in describers.items():
            with _watching(f"Describing with {name}") as watch:
                results[name] = evaluate_hpatches(data, describe, **settings, progress=watch)
    names = None if source.split == "all" else find_split(source.split, source.lists).test
    for name, folder in folders.items():
        results[name] = evaluate_hpatches(read_descriptors(folder, names), **settings)
    print_hpatches(results, style=style, verbose=verbose)


def print_hpatches(results: Mapping[str, "HPatchesResult"], *, style: str, verbose: bool) -> None:
    """A row a descriptor, or for each sequence a row a descriptor; in percent."""
    from solar.evaluation.hpatches_protocol import LEVELS
    from solar.evaluation.layout import Table, number

    first = next(iter(results.values()))
    head = [[""]]
    for task in first.tasks:
        head += [[task, heading] for heading in ("mAP", *LEVELS.values())]
    rows = []
    for name, found in results.items():
        cells = [name]
        for task in found.tasks:
            levels = found.levels(task)
            cells += [number(100 * v, 2) for v in (found.mean(task), *levels.values())]
        rows.append(cells)
    groups = [rows]
    if verbose and first.matching:
        for sequence in first.matching:
            groups.append(
                [
                    _sequence_row(f"{sequence}: {name}", found.matching[sequence], len(head))
                    for name, found in results.items()
                    if sequence in found.matching
                ]
            )
    points = f"{len(first.matching)} sequences, " if first.matching else ""
    lists = "; ".join(f"{task} lists {what}" for task, what in first.lists.items())
    note = f"{points}split {first.split}, {first.average} AP, in percent. {lists}".strip()
    data = {name: found.to_dict() for name, found in results.items()}
    print_report(style, data, Table(head, groups, note))


def phototour(
    choice: Choice, root: Path | None, subsets: str, convention: str, *, style: str
) -> None:
    """Print FPR95 of every descriptor on every subset, in percent."""
    from solar.datasets.phototour import read_phototour
    from solar.evaluation.layout import Table, number
    from solar.evaluation.phototour_protocol import evaluate_phototour

    if root is None:
        raise SolarError("Say where the PhotoTour subsets are with --root.")
    describers = choice.describers()
    if not describers or choice.descriptors:
        raise SolarError("Say what to evaluate: --model or --methods sift,rootsift.")
    wanted = _words(subsets)
    found: dict[str, dict[str, Any]] = {name: {} for name in describers}
    for subset in wanted:
        data = read_phototour(root, subset)
        for name, describe in describers.items():
            with _watching(f"{name} on {subset}") as watch:
                result = evaluate_phototour(data, describe, convention=convention, progress=watch)
            found[name][subset] = result.to_dict()
    rows = []
    for name, results in found.items():
        rates = [results[subset]["FPR95"] for subset in wanted]
        rows.append([name, *(number(rate, 2) for rate in [*rates, sum(rates) / len(rates)])])
    note = f"FPR95 in percent, as {convention} counts it: lower is better."
    print_report(style, found, Table([[""], *([s] for s in (*wanted, "mean"))], [rows], note))


def _sequence_row(title: str, noises: Mapping[str, tuple[float, float]], columns: int) -> list[str]:
    from solar.evaluation.layout import number

    values = [100 * ap for ap, _ in noises.values()]
    cells = [title, *(number(v, 2) for v in (sum(values) / len(values), *values))]
    return cells + [""] * (columns - len(cells))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@contextmanager
def _watching(what: str) -> Iterator[Progress]:
    """A bar on a terminal, gone when done."""
    from rich.progress import Progress as Bars

    console = errors()
    with Bars(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
