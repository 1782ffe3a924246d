"""A store: one folder that holds the descriptors of a list of photos.

```
photos.store/
  manifest.json           what the vectors are: model, settings, dim, dtype, which photos
  source.json             the list of photos, in order
  shard-00000-3f2a….npy   the vectors of the first `shard_size` photos, one row each
  shard-00000.jsonl       one header line, then one line per photo: its size, or why it failed
  …
  .lock                   empty; held while a run is going on
```

The content of a shard depends on its slice of the list alone, so shards may be written in any
order, by any process, and the finished folder is the same to the byte. A list that changes later
keeps the shards that are still true (`solar.describe.store_growth`). The `.jsonl` of a shard is
its commit point. It names its `.npy` by the hash of the content, so two writers of one shard (a
worker believed dead, say) can never pair the record of one with the vectors of the other.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.arrays import AnyFloats
from solar.defaults import SHARD_SIZE
from solar.describe.store_files import (
    MANIFEST,
    SOURCE,
    SWEPT,
    Header,
    Manifest,
    OtherSettingsError,
    Record,
    ShardEntry,
    ShardFiles,
    damaged,
    difference,
    make_folder,
    read_manifest,
    sha256,
    source_bytes,
    unwritable,
    write_whole,
)
from solar.describe.store_growth import StoredShards, up_to_date
from solar.errors import SolarError
from solar.files import LOCK, TEMPORARY, locked
from solar.images import Photos, Roots, Stamp

WhichRows: TypeAlias = slice | Sequence[int] | npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Photos:
    names: list[str]
    sizes: npt.NDArray[np.int32]
    stamps: list[Stamp | None]
    failures: dict[str, str]
    rows: dict[str, int]


class Store:
    """Descriptors of photos on disk; make one with `Store.create` or `Store.open`.

    Rows are numbered over the finished shards, so in a partial store they shift as shards arrive.
    A store pickles as its path, so it can be sent to the workers of a cluster.

    Attributes:
        path: The folder.
        model: Name of the model that made the vectors.
        fingerprint: Hash of its weights.
        settings: How photos were described, as JSON values (a tuple comes back as a list).
        dim: Length of a vector.
        dtype: `float32` or `float16`.
        shard_size: Photos of the source list per shard, at most.
        shards: Number of shards, finished or not.
        roots: Where the photos are, as far as that is known.
    """

    def __init__(self, path: Path, manifest: Manifest, source: list[str] | None = None) -> None:
        self.path = path
        self.model = manifest.model
        self.fingerprint = manifest.fingerprint
        self.settings = manifest.settings
        self.dim = manifest.dim
        self.dtype = np.dtype(manifest.dtype)
        self.shard_size = manifest.shard_size
        self.shards = len(manifest.shards)
        self.roots = Roots.read(manifest.roots)
        starts = accumulate((count for _, count in manifest.shards), initial=0)
        self._slices = {
            number: slice(start, start + count)
            for (number, count), start in zip(manifest.shards, starts, strict=False)
        }
        self._on_disk = self.dtype.newbyteorder("<")  # the same bytes from any machine
        self._manifest = manifest
        self._source = source
        self._headers: dict[int, Header] = {}
        self._checked: set[int] = set()  # shards whose vectors are those that were written
        self._photos: _Photos | None = None
        self._look()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        names: Sequence[str] | Photos,
        *,
        model: str,
        fingerprint: str,
        settings: Mapping[str, Any],
        dim: int,
        dtype: npt.DTypeLike = "float32",
        shard_size: int = SHARD_SIZE,
        retry: bool = False,
    ) -> Store:
        """Start a store for `names`, or bring the one that is there up to date with them.

        Vectors of photos that are still the same are kept. `names` are in order, each once;
        `Photos` also say where they are and which have changed. `settings` are JSON values. With
        `retry`, photos that could not be described before are described again. Other arguments are
        attributes of a store. Call it inside `lock`.

        Raises:
            SolarError: The folder holds other things, a store made otherwise, or cannot be written.
        """
        if np.dtype(dtype) not in (np.float32, np.float16):
            raise ValueError(f"A store holds float32 or float16, not {dtype}.")
        path = Path(path)
        photos = names if isinstance(names, Photos) else Photos(tuple(names), ())
        if len(set(photos.names)) < len(photos):
            twice = Counter(photos.names).most_common(1)[0][0]
            raise SolarError(f"The list of photos has {twice!r} twice; name every photo once.")
        source = source_bytes(photos.names)
        manifest = Manifest(
            model=model,
            fingerprint=fingerprint,
            settings=json.loads(json.dumps(dict(settings), allow_nan=False)),
            dim=dim,
            dtype=np.dtype(dtype).name,
            shard_size=shard_size,
            photos=len(photos),
            source_sha256=sha256(source),
            roots=photos.roots.stored(),
        )
        make_folder(path)
        if not (path / MANIFEST).exists():
            write_whole(path / SOURCE, source)
            write_whole(path / MANIFEST, manifest.to_bytes())
        store = cls(path, read_manifest(path))
        store._refuse_other(manifest)
        stored = StoredShards(path, store._manifest, store._headers, store._read_source())
        return cls(path, up_to_date(stored, photos, retry=retry))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_partial: bool = False) -> Store:
        """Open a finished store, or with `allow_partial` one that may lack shards.

        Raises:
            SolarError: There is no store, or it is damaged, too new, or unfinished.
        """
        store = cls(Path(path), read_manifest(Path(path)))
        if not allow_partial and not store.complete:
            raise SolarError(
                f"{path} is unfinished ({len(store._headers)} of {store.shards} shards); "
                "run the command that made it again to finish it, or allow a partial store."
            )
        return store

    def __reduce__(self) -> tuple[Callable[..., Store], tuple[Path]]:
        return partial(Store.open, allow_partial=True), (self.path.absolute(),)

    def __len__(self) -> int:
        return sum(header.rows for header in self._headers.values())

    def __repr__(self) -> str:
        state = "" if self.complete else ", partial"
        return f"<Store {str(self.path)!r}: {len(self)} x {self.dim} {self.dtype}{state}>"

    @property
    def complete(self) -> bool:
        """Whether every shard was there when last looked at."""
        return len(self._headers) == self.shards

    @property
    def names(self) -> list[str]:
        """The described photos, in row order."""
        return self._read_photos().names

    @property
    def sizes(self) -> npt.NDArray[np.int32]:
        """Original width and height of the described photos, (n, 2), in row order."""
        return self._read_photos().sizes

    @property
    def failures(self) -> dict[str, str]:
        """The photos without a row, and why."""
        return self._read_photos().failures

    @property
    def stamps(self) -> list[Stamp | None]:
        """State of the files of the described photos, in row order; None if unknown."""
        return self._read_photos().stamps

    # Writing

    def pending(self) -> list[int]:
        """Look at the folder again and list the shards still to be written."""
        self._look()
        return [shard for shard in self._slices if shard not in self._headers]

    def source(self, shard: int) -> list[str]:
        """The names that shard number `shard` covers, in order."""
        if shard not in self._slices:
            raise IndexError(f"{self.path} has no shard {shard}")
        if self._source is None:
            self._source = self._read_source()
        return self._source[self._slices[shard]]

    def write_shard(
        self,
        shard: int,
        vectors: npt.ArrayLike,
        names: Sequence[str],
        sizes: npt.ArrayLike,
        failures: Mapping[str, str],
        stamps: Mapping[str, Stamp] | None = None,
    ) -> None:
        """Write one shard, whole or not at all; a shard already finished is left as it is.

        Processes may write different shards, or even the same one, at the same time.

        A SolarError if a vector is not finite, or the disk is full or read-only.

        Args:
            shard: Its number.
            vectors: (n, dim), cast to the store's dtype.
            names: The n described photos, in the order of `source(shard)`.
            sizes: Their original width and height, (n, 2).
            failures: Why each other photo of `source(shard)` has no vector.
            stamps: The state of the files, where that is known.
        """
        with np.errstate(over="ignore"):  # an overflow to float16 is caught below, as infinity
            array = np.ascontiguousarray(vectors, self._on_disk)
        if not array.size:  # every photo failed: an empty list will do
            array = array.reshape(-1, self.dim)
        pairs = np.asarray(sizes, np.int32).reshape(-1, 2)
        finite = np.isfinite(array).all(axis=1)
        if not finite.all():
            raise SolarError(
                f"The descriptor of {names[int(finite.argmin())]!r} is not finite in {self.dtype}; "
                "describe with float32 or check the model's weights."
            )
        if (done := self._shard(shard).read_header()) is None:
            known = {n: (w, h) for n, (w, h) in zip(names, pairs.tolist(), strict=True)}
            record = [
                ShardEntry(n, known.get(n), failures.get(n, ""), (stamps or {}).get(n))
                for n in self.source(shard)
            ]
            done = self._shard(shard).write(array, record)
        self._add(shard, done)

    # Reading

    def shard_arrays(self) -> Iterator[AnyFloats]:
        """The vectors as memory-mapped arrays, one per finished shard, in row order."""
        for shard in self._finished():
            yield self._map(shard)

    def vectors(self, rows: WhichRows = slice(None)) -> AnyFloats:
        """Copy rows into memory: (n, dim), in the order asked for; by default all."""
        wanted = np.arange(len(self))[rows]
        order = np.argsort(wanted, kind="stable")
        shards = self._finished()
        starts = np.cumsum([0, *(self._headers[shard].rows for shard in shards)])
        cuts = np.searchsorted(wanted[order], starts)
        out = np.empty((len(wanted), self.dim), self.dtype)
        for i in np.flatnonzero(np.diff(cuts)):
            mine = order[cuts[i] : cuts[i + 1]]
            out[mine] = self._map(shards[i])[wanted[mine] - starts[i]]
        return out

    def chunks(self, rows: int = 65536) -> Iterator[tuple[int, AnyFloats]]:
        """All vectors in pieces of at most `rows`, each with the number of its first row."""
        for start in range(0, len(self), rows):
            yield start, self.vectors(slice(start, start + rows))

    def rows_of(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """The rows of several photos; a SolarError if one failed or is not in the store."""
        photos = self._read_photos()
        for name in names:
            if name not in photos.rows:
                why = photos.failures.get(name)
                raise SolarError(
                    f"{self.path} has no descriptor of {name!r}"
                    + (f", which failed: {why}" if why else "; give a name from its list.")
                )
        return np.array([photos.rows[name] for name in names], np.int64)

    def check(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence per problem."""
        again = "run the command that made it again"
        problems = [f"{self.path} lacks shard {shard}: {again}." for shard in self.pending()]
        try:
            self._source = self._read_source()
        except SolarError as error:
            return [*problems, str(error)]
        for number in self._finished():
            shard, header = self._shard(number), self._headers[number]
            if not shard.sound(header, self.source(number), self.dim, self._on_disk):
                problems.append(
                    f"{shard.record} or its vectors are damaged: delete it, and {again}."
                )
        return problems

    # The files

    def _shard(self, number: int) -> ShardFiles:
        return ShardFiles(self.path, number)

    def _finished(self) -> list[int]:
        """The shards that are there, in the order of the list."""
        return [shard for shard in self._slices if shard in self._headers]

    def _look(self) -> None:
        for shard in self._slices:
            if shard not in self._headers and (header := self._shard(shard).read_header()):
                self._add(shard, header)

    def _add(self, shard: int, header: Header) -> None:
        self._headers[shard] = header
        self._photos = None

    def record(self, shard: int) -> Record:
        """The photos of a finished shard."""
        return self._shard(shard).read_record(self._headers[shard])

    def _read_photos(self) -> _Photos:
        if self._photos is None:
            records = [self.record(number) for number in self._finished()]
            entries = [entry for record in records for entry in record]
            described = [(e.name, e.size, e.stamp) for e in entries if e.size is not None]
            names = [name for name, _, _ in described]
            self._photos = _Photos(
                names,
                np.array([size for _, size, _ in described], np.int32).reshape(-1, 2),
                [stamp for _, _, stamp in described],
                {e.name: e.reason for e in entries if e.size is None},
                {name: row for row, name in enumerate(names)},
            )
        return self._photos

    def _read_source(self) -> list[str]:
        file = self.path / self._manifest.source
        try:
            content = file.read_bytes()
        except OSError as error:
            raise damaged(file) from error
        if sha256(content) != self._manifest.source_sha256:
            raise damaged(file)
        names: list[str] = json.loads(content)
        return names

    def _map(self, number: int) -> AnyFloats:
        header, check = self._headers[number], number not in self._checked
        vectors = self._shard(number).map(header, self.dim, self._on_disk, check=check)
        self._checked.add(number)
        return vectors

    def _refuse_other(self, new: Manifest) -> None:
        if other := difference(self._manifest, new):
            raise OtherSettingsError(
                f"{self.path} was made with {other}; choose another folder or pass the same "
                "settings."
            )


@contextmanager
def lock(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let one run at a time write the store at `path`, and sweep what a killed run left there.

    Workers that write shards for a run do not take it. A SolarError if another run holds it, or the
    folder is no place for a store.
    """
    path = Path(path)
    make_folder(path)
    busy = f"Another run is writing {path}; wait until it is done or choose another folder."
    with locked(path / LOCK, busy, complaint=unwritable):
        _sweep(path)
        yield


def _sweep(path: Path) -> None:
    """Delete temporary files, and shards that the manifest does not name."""
    named = set()
    if (path / MANIFEST).exists():
        store = Store(path, read_manifest(path))
        shards = {store._shard(number): header for number, header in store._headers.items()}
        named = {shard.vectors(header).name for shard, header in shards.items()}
        named |= {shard.record.name for shard in map(store._shard, store._slices)}
        named.add(store._manifest.source)
    try:
        for file in list(path.iterdir()):
            orphan = SWEPT.fullmatch(file.name) and file.name not in named
            if orphan or TEMPORARY.fullmatch(file.name):
                file.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
