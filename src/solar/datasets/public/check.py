"""Report which files of a public dataset are present or missing, and its release."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from solar.datasets.plain_pickle import read_plain_pickle
from solar.datasets.public import registry
from solar.datasets.public.fetch import is_unpacked, marker
from solar.datasets.public.registry import Dataset
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.files import reading

_EXAMPLES = 5  # of what is missing


@dataclass(frozen=True)
class Item:
    """One kind of thing a dataset consists of, and how many of it are here."""

    what: str
    found: int  # empty files not counted
    expected: int
    missing: tuple[str, ...] = ()  # the first few, where their names are known
    note: str = ""  # what else is wrong

    @property
    def complete(self) -> bool:
        """Whether all are here."""
        return self.found >= self.expected


@dataclass(frozen=True)
class DatasetReport:
    """What `check` found."""

    dataset: str
    folder: Path
    items: tuple[Item, ...]
    release: str  # that was unpacked here, of those with faces "blurred" or "original"; or ""
    unpacked: bool  # every archive was unpacked here: what is missing was deleted since
    only: tuple[str, ...] = ()  # the subsets that were asked for

    @property
    def complete(self) -> bool:
        """Whether everything is here."""
        return all(item.complete for item in self.items)


def check(
    name: str,
    root: str | Path,
    *,
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> DatasetReport:
    """Look what of a dataset is in ``root/name``, however it came there.

    `only` names subsets, as for `datasets.public.fetch.get`; `progress` counts the files checked.
    """
    dataset = registry.find(name).narrowed(only)
    folder = Path(root).expanduser() / dataset.name
    with reading(folder):
        files = (Item(file.name, int(_is_there(folder / file.name)), 1) for file in dataset.files)
        items = tuple(chain(files, LAYOUTS[dataset.layout](dataset, folder, progress)))
        release = next((a.release for a in dataset.archives if marker(folder, a)), "")
    archives = dataset.archives_of(release)
    unpacked = bool(archives) and all(is_unpacked(folder, archive) for archive in archives)
    return DatasetReport(dataset.name, folder, items, release, unpacked, tuple(only))


def _revisited(dataset: Dataset, folder: Path, progress: Progress | None) -> Iterator[Item]:
    truth, what = folder / f"gnd_{dataset.name}.pkl", "photos"
    if not _is_there(truth):
        yield Item(what, sum(map(_is_there, _photos(folder / "jpg"))), dataset.photos)
        return
    try:
        names = _names(truth)
    except SolarError as error:
        yield Item("a ground truth that can be read", 0, 1, note=str(error))
        return
    if len(names) != dataset.photos:
        note = f"{truth.name} names {len(names):,} photos: it belongs to another dataset."
        yield Item("a ground truth for this dataset", 0, 1, note=note)
    photos = [f"{name}.jpg" for name in names]
    yield _listed(what, folder / "jpg", photos, len(names), progress)


def _distractors(dataset: Dataset, folder: Path, progress: Progress | None) -> Iterator[Item]:
    listing = folder / dataset.files[0].name
    if not _is_there(listing):
        yield Item("photos", 0, dataset.photos, note=f"{listing.name} is needed to look for them.")
        return
    names = listing.read_text(encoding="utf-8", errors="replace").splitlines()
    yield Item(f"names in {listing.name}", len(names), dataset.photos)
    yield _listed("photos", folder / "jpg", names, len(names), progress)


def _landmarks(dataset: Dataset, folder: Path, progress: Progress | None) -> Iterator[Item]:
    # Which photos its publishers still got is known only to the archive.
    noted = marker(folder, dataset.archives[0])
    files = noted.get("files") if noted else None
    expected = files if isinstance(files, int) else dataset.photos
    photos = (photo.name for photo in _photos(folder / "jpg"))
    found = sum(_is_there(folder / "jpg" / name) for name in _counted(photos, expected, progress))
    yield Item("photos", found, expected, note="" if noted else "Expected: about a million.")


def _landmarks_v2(dataset: Dataset, folder: Path, progress: Progress | None) -> Iterator[Item]:
    for into, listed in dict.fromkeys((a.into, a.listed) for a in dataset.archives):
        listing = folder / (listed or f"{into}.csv")
        expected, what = registry.GLDV2_PHOTOS[listing.name], f"photos of {listing.name}"
        if not _is_there(listing):
            yield Item(what, 0, expected, note=f"{listing.name} is needed to look for them.")
            continue
        from solar.datasets.public.gldv2 import photo_ids, photo_path  # brings in numpy

        try:
            ids = photo_ids(listing)
        except SolarError as error:
            yield Item(f"{listing.name}, readable", 0, 1, note=str(error))
            continue
        yield Item(f"names in {listing.name}", len(ids), expected)
        yield _listed(
            what, folder / into, (photo_path(i.decode()) for i in ids), len(ids), progress
        )


def _structure_from_motion(
    dataset: Dataset, folder: Path, progress: Progress | None
) -> Iterator[Item]:
    seen: dict[str, None] = {}
    for file in dataset.files:
        if _is_there(folder / file.name):
            try:
                seen.update(dict.fromkeys(_names(folder / file.name)))
            except SolarError as error:
                yield Item(f"{file.name}, readable", 0, 1, note=str(error))
    if seen:
        from solar.datasets.labelled.sources import sfm_path  # brings in numpy

        yield _listed("photos", folder, map(sfm_path, seen), len(seen), progress)
    else:
        yield Item("photos", 0, dataset.photos, note="A database file is needed to look for them.")


def _hpatches(dataset: Dataset, folder: Path, progress: Progress | None) -> Iterator[Item]:
    sequences = sorted(path.name for path in folder.glob("[iv]_*") if path.is_dir())
    missing = {
        name: [file for file in registry.HPATCHES_FILES if not _is_there(folder / name / file)]
        for name in _counted(sequences, len(sequences), progress)
    }
    whole = sum(not files for files in missing.values())
    lacking = [f"{name}/{file}" for name, files in missing.items() for file in files]
    total = dataset.photos // len(registry.HPATCHES_FILES)
    yield Item("sequences", whole, total, tuple(lacking[:_EXAMPLES]))


def _phototour(dataset: Dataset, folder: Path, progress: Progress | None) -> Iterator[Item]:
    for scene, patches in registry.PHOTOTOUR_PATCHES.items():
        place = folder / scene
        pictures = sum(map(_is_there, place.glob("*.bmp")))
        yield Item(f"{scene}: pictures of patches", pictures, registry.mosaics(scene))
        yield Item(f"{scene}: patches in info.txt", _rows(place / "info.txt"), patches)
        pairs = place / "m50_100000_100000_0.txt"
        yield Item(f"{scene}: {pairs.name}", int(_is_there(pairs)), 1)


LAYOUTS: dict[str, Callable[[Dataset, Path, Progress | None], Iterable[Item]]] = {
    "files": lambda dataset, folder, progress: (),
    "revisited": _revisited,
    "listed": _distractors,
    "landmarks": _landmarks,
    "gldv2": _landmarks_v2,
    "sfm120k": _structure_from_motion,
    "hpatches": _hpatches,
    "phototour": _phototour,
}
"""How to look at a folder, by how it is laid out."""


def _counted(names: Iterable[str], total: int, progress: Progress | None) -> Iterator[str]:
    advance = counted(progress, "Checking files", total)
    for name in names:
        yield name
        advance(1)


def _listed(
    what: str, folder: Path, names: Iterable[str], total: int, progress: Progress | None
) -> Item:
    missing: list[str] = []
    found = 0
    for name in _counted(names, total, progress):
        if _is_there(folder / name):
            found += 1
        elif len(missing) < _EXAMPLES:
            missing.append(name)
    return Item(what, found, total, tuple(missing))


def _is_there(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except (OSError, ValueError):  # a name that no file can have
        return False


def _photos(folder: Path) -> Iterator[Path]:
    entries = folder.iterdir() if folder.is_dir() else ()
    return (path for path in entries if path.suffix.lower() in (".jpg", ".jpeg"))


def _rows(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def _names(path: Path) -> list[str]:
    """The photos that a ground truth or a training database names; a SolarError if none."""
    content = read_plain_pickle(path)
    try:
        halves = [content[half] for half in ("train", "val") if half in content] or [content]
        keys = ("imlist", "qimlist", "cids")
        names = [str(name) for half in halves for key in keys for name in half.get(key, ())]
    except (AttributeError, TypeError):
        names = []
    if not names:
        raise SolarError(f"{path} names no photos.")
    return names
