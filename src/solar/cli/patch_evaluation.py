"""`solar evaluate hpatches` and `solar evaluate phototour`: how good descriptors of patches are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.cli.printing import print_report, steps
from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.datasets.hpatches import HPatches
    from solar.describe.counting import Progress
    from solar.evaluation.hpatches_protocol import HPatchesResult
    from solar.evaluation.patch_describers import Describe


@dataclass(frozen=True)
class Choice:
    """What to compare: models, methods by name, and files of descriptors; and what to measure.

    Tasks and average are those of HPatches, subsets and convention those of PhotoTour.
    """

    models: Sequence[str]
    methods: str | None
    descriptors: Sequence[str]
    device: str | None
    tasks: str
    average: str
    subsets: str
    convention: str

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

        if self.make is not None:
            if self.root is not None:
                raise SolarError("--root reads patches and --make cuts them: give one of the two.")
            return make_hpatches(self.make, self.output, seed=self.seed, keypoints=self.keypoints)
        if self.output is not None:
            raise SolarError("-o keeps the patches of --make: use it only with --make.")
        if self.root is None:
            raise SolarError("Say where the patches are with --root, or cut them with --make.")
        return read_hpatches(self.root, self.test_sequences())

    def test_sequences(self) -> tuple[str, ...] | None:
        """The sequences of the split; None for all."""
        from solar.evaluation.hpatches_protocol import find_split

        return None if self.split == "all" else find_split(self.split, self.lists).test


def hpatches(choice: Choice, source: Source, *, style: str, verbose: bool) -> None:
    """Print one table of everything that is compared."""
    from solar.datasets.hpatches import read_descriptors
    from solar.evaluation.hpatches_protocol import evaluate_hpatches

    describers, folders = choice.describers(), choice.folders()
    if not describers and not folders:
        raise SolarError("Say what to evaluate: --model, --methods sift,rootsift or --descriptors.")
    if set(describers) & set(folders):
        raise SolarError("Two descriptors have the same name: tell them apart with NAME=….")
    measure = partial(
        evaluate_hpatches,
        tasks=_words(choice.tasks),
        split=source.split,
        lists=source.lists,
        average=choice.average,
        seed=source.seed,
    )
    results = {}
    if describers or source.make is not None:
        data = source.patches()
        with steps() as bars:
            for name, describe in describers.items():
                told = _renamed(bars, f"Describing with {name}")
                results[name] = measure(data, describe, progress=told)
    for name, folder in folders.items():
        results[name] = measure(read_descriptors(folder, source.test_sequences()))
    print_hpatches(results, style=style, verbose=verbose)


def _renamed(progress: "Progress", step: str) -> "Progress":
    return lambda _, done, total: progress(step, done, total)


def print_hpatches(results: Mapping[str, "HPatchesResult"], *, style: str, verbose: bool) -> None:
    """A row per descriptor, with `verbose` also per sequence; in percent."""
    from solar.evaluation.hpatches_protocol import LEVELS
    from solar.evaluation.layout import Table, number

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


def phototour(choice: Choice, source: Source, *, style: str, verbose: bool) -> None:
    """Print FPR95 of every descriptor on every subset, in percent."""
    from solar.datasets.phototour import read_phototour
    from solar.evaluation.layout import Table, number
    from solar.evaluation.phototour_protocol import evaluate_phototour

    if source.root is None:
        raise SolarError("Say where the PhotoTour subsets are with --root.")
    describers = choice.describers()
    if not describers or choice.descriptors:
        raise SolarError("Say what to evaluate: --model or --methods sift,rootsift.")
    wanted, convention = _words(choice.subsets), choice.convention
    found: dict[str, dict[str, Any]] = {name: {} for name in describers}
    with steps() as bars:
        for subset in wanted:
            data = read_phototour(source.root, subset)
            for name, describe in describers.items():
                told = _renamed(bars, f"{name} on {subset}")
                result = evaluate_phototour(data, describe, convention=convention, progress=told)
                found[name][subset] = result.to_dict()
    rows = []
    for name, results in found.items():
        rates = [results[subset]["FPR95"] for subset in wanted]
        rows.append([name, *(number(rate, 2) for rate in [*rates, sum(rates) / len(rates)])])
    note = f"FPR95 in percent, as {convention} counts it: lower is better."
    print_report(style, found, Table([[""], *([s] for s in (*wanted, "mean"))], [rows], note))


SETS: dict[str, Callable[..., None]] = {"hpatches": hpatches, "phototour": phototour}
"""The sets of patches by name."""


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
