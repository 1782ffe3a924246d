"""How a public dataset is described: its files and archives, and the subsets they make up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from solar.errors import SolarError


@dataclass(frozen=True)
class File:
    """One published file."""

    name: str  # what it is called here, and on a mirror of the user's
    urls: tuple[str, ...]  # where it is published, the preferred address first
    sha256: str | None = None  # its digest or the first digits of it, where known
    md5: str | None = None  # where a publisher gives only that
    md5_file: "File | None" = None  # where a publisher gives that as a file beside it
    mirrored: str = ""  # its path on a mirror of the user's, where that is not its name
    size: int = 0  # about how many bytes, if that is worth telling and not in its archive
    subsets: tuple[str, ...] = ()  # of the dataset that need it; none given: it is always fetched


@dataclass(frozen=True)
class Archive:
    """A tar or zip file, perhaps cut into parts, and what becomes of its members."""

    name: str  # in messages, and of its marker
    parts: tuple[File, ...]  # which, one after the other, are the archive; mostly one
    into: str  # the folder inside the dataset's that its members go to
    keep: int  # how many components of a member's path are kept, from the end; 0 keeps all
    suffixes: tuple[str, ...]  # of the members that are taken; none given takes everything
    download: int  # about how many bytes are fetched
    unpacked: int  # about how many bytes it becomes
    release: str = ""  # which of the dataset's releases it is part of, where there are several
    subset: str = ""  # which of the dataset's subsets it is part of, where there are several
    listed: str = ""  # the file of the dataset that names the photos to keep; none given: all


@dataclass(frozen=True)
class Selection:
    """A subset that is a part of another one."""

    of: str  # the other one
    listed: str  # the file of the dataset that names its photos
    share: float  # of the other one's bytes


@dataclass(frozen=True)
class Dataset:
    """Everything `solar data` knows of one dataset."""

    name: str  # on the command line, and of its folder
    about: str  # one line on what it is for
    terms: str  # what its publishers say on its use, in short
    page: str  # where they say it
    files: tuple[File, ...]  # fetched as they are
    archives: tuple[Archive, ...]  # fetched and unpacked
    photos: int  # (or patches, for patch sets) of a complete copy
    layout: str  # of its folder: one of `solar.datasets.public.check.LAYOUTS`
    # What `solar evaluate NAME` measures on its photos, and how many its database has.
    ground_truths: Mapping[str, int] = field(default_factory=dict)
    selections: Mapping[str, Selection] = field(default_factory=dict)  # by the subset's name

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases to choose from, the one that is still published first."""
        return tuple(dict.fromkeys(a.release for a in self.archives if a.release))

    @property
    def subsets(self) -> tuple[str, ...]:
        """The subsets to choose from, the default one first."""
        archives, files = (a.subset for a in self.archives), (f.subsets for f in self.files)
        named = chain(self.selections, archives, chain.from_iterable(files))
        return tuple(dict.fromkeys(subset for subset in named if subset))

    def narrowed(self, only: Sequence[str] = ()) -> "Dataset":
        """What of it makes up some of its subsets; none given: the default one.

        A SolarError if it has no such subset.
        """
        for subset in only:
            if subset not in self.subsets:
                choice = " or ".join(self.subsets) or "it comes as a whole"
                raise SolarError(f"{self.name} has no subset {subset!r}: {choice}.")
        chosen = {"", *(only or self.subsets[:1])}
        selected = {s.of: s for name, s in self.selections.items() if name in chosen}
        archives = []
        for archive in self.archives:
            if archive.subset in chosen:
                archives.append(archive)
            elif (part := selected.get(archive.subset)) is not None:
                size = round(archive.unpacked * part.share)
                archives.append(replace(archive, listed=part.listed, unpacked=size))
        files = tuple(f for f in self.files if not f.subsets or chosen.intersection(f.subsets))
        return replace(self, files=files, archives=tuple(archives))

    def archives_of(self, release: str) -> tuple[Archive, ...]:
        """The archives that make up one release."""
        return tuple(a for a in self.archives if a.release in ("", release))

    @property
    def download(self) -> int:
        """About how many bytes are fetched."""
        return self._size(lambda archive: archive.download)

    @property
    def unpacked(self) -> int:
        """About how many bytes it takes on disk."""
        return self._size(lambda archive: archive.unpacked)

    def _size(self, size: Callable[[Archive], int]) -> int:
        default = self.narrowed()
        archives = default.archives_of(self.releases[0] if self.releases else "")
        return sum(map(size, archives)) + sum(file.size for file in default.files)
