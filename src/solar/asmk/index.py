"""An ASMK* index: visual words of photos in inverted files, metadata in SQLite.

```
photos.asmk/
  catalogue.sqlite        photos, their rows, and which of the files below count
  codebook.safetensors    the visual words
  postings-1-0.npy        the inverted file of the first rows; it never changes
  local/                  keypoints of photos that a search verified; may be deleted at any time
  .lock                   held by the one writer
```

New photos get an inverted file of their own, and a search looks into all of them, memory-mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.arrays import Flags, Floats, RowNumbers
from solar.asmk.codebook import Codebook
from solar.asmk.features import Described, Finder
from solar.asmk.kernel import ASSIGN, Postings, Signatures, aggregate, selectivity
from solar.errors import SolarError
from solar.files import file_digest, regular, sync_folder
from solar.images import Roots
from solar.index.photo_index import PhotoIndex
from solar.index.sources import working_folder
from solar.local.features import LocalModel, local_features, local_fingerprint, local_model
from solar.storage.catalogue import Metadata
from solar.storage.catalogue_view import CodesFile, Version, View
from solar.storage.conditions import Where
from solar.storage.damage import damaged_files
from solar.storage.folder_base import FolderState, FolderStorage, FolderWriter, creating
from solar.storage.protocol import NoVectorsError
from solar.storage.types import DescriptorSpec, Hit, Photo

if TYPE_CHECKING:
    from solar.describe.pipeline import QueryEncoder
    from solar.describe.progress import Progress
    from solar.images import Box, Photos, Source

CODEBOOK = "codebook.safetensors"
KIND = "asmk"
# Photos per inverted file: a few hundred megabytes while it is made.
_PHOTOS = 8192


def begin(address: str | os.PathLike[str], spec: DescriptorSpec, codebook: Codebook) -> AsmkFolder:
    """Start an index that a run fills; one that was begun before and has no photos is begun again.

    The checksum of the codebook is added to `spec`.
    """
    folder = Path(address)
    with creating(folder) as (view, known):
        if known is not None:
            raise SolarError(f"{folder} is an index already: add to it, or choose another folder.")
        codebook.save(folder / CODEBOOK)
        settings = {**spec.settings, "codebook": file_digest(folder / CODEBOOK)}
        spec = replace(spec, settings=settings)
        view.begin(spec, KIND, Roots())
    return AsmkFolder(folder, spec)


@dataclass(frozen=True)
class _AsmkState(FolderState):
    """One committed version with its inverted files mapped."""

    parts: tuple[Postings, ...]

    @cached_property
    def norms(self) -> Floats:
        """What the scores of rows are divided by, (rows,)."""
        norms = [np.empty(0, np.float32), *(part.norms() for part in self.parts)]
        return np.maximum(np.concatenate(norms), 1e-6)

    def scores(self, query: Signatures, table: Floats) -> Floats:
        """The similarity of every row, (rows,); 0 for removed photos."""
        sums = [np.empty(0, np.float32), *(part.scores(query, table) for part in self.parts)]
        scores: Floats = np.concatenate(sums)
        scores /= self.norms * np.float32(max(np.sqrt(len(query)), 1e-6))
        scores[self.removed] = 0
        return scores


class AsmkFolder(FolderStorage[_AsmkState]):
    """The storage of an `AsmkIndex`."""

    engine = KIND
    incoming = None

    @cached_property
    def codebook(self) -> Codebook:
        """The visual words, read when they are first needed."""
        self._refuse_damaged({CODEBOOK: self.spec.settings["codebook"]})
        return Codebook.read(self.folder / CODEBOOK)

    def search_signatures(
        self, queries: Sequence[Signatures], k: int, where: Where = ()
    ) -> list[list[Hit]]:
        """The k best photos with a score above 0 that satisfy `where`, for each query."""
        table = selectivity(self.spec.dim)
        with self._metadata.snapshot(self._state) as (view, state):
            allowed = view.matching(where) if where else None
            ranked = [_best(state.scores(query, table), k, allowed) for query in queries]
            paths = view.paths({row for best in ranked for row, _ in best})
        return [[Hit(paths[row], score) for row, score in best] for best in ranked]

    def add_signatures(self, batches: Iterable[Described]) -> int:
        """Add photos or replace those of the same path, all or none; returns how many."""
        with self._metadata.writing() as view:
            return self._writer(view).add(batches)

    def _no_vectors(self, *_: Any, **__: Any) -> Any:
        raise NoVectorsError

    search = lookup = batches = sample = add = fill = mapped = _no_vectors

    def discard(self) -> None:
        """Delete an index that was begun and holds no photo."""
        (self.folder / CODEBOOK).unlink(missing_ok=True)
        super().discard()

    def _facts(self, state: _AsmkState, files: Mapping[str, int]) -> dict[str, Any]:
        postings = sum(files.get(part.name, 0) for part in state.version.codes)
        return {
            "words": len(self.codebook.words),
            "bytes_of_codebook": files.get(CODEBOOK, 0),
            "bytes_of_postings": postings,
            "bytes_a_photo": round(postings / max(state.version.rows, 1)),
        }

    def _problems(self, view: View, state: _AsmkState) -> list[str]:
        files = {part.name: part.sha256 for part in state.version.codes}
        files[CODEBOOK] = self.spec.settings["codebook"]
        return damaged_files(self.folder, files, "restore it or build again")

    def _writer(self, view: View) -> AsmkWriter:
        return AsmkWriter(self.folder, view, self.codebook.blocks)

    def _load(self, view: View, version: Version) -> _AsmkState:
        # Files that were checked before in this process are not read again.
        files = {(part.name, part.sha256) for part in version.codes}
        self._refuse_damaged(dict(files - self._checked))
        self._checked |= files
        parts = tuple(Postings.mapped(self.folder / part.name) for part in version.codes)
        return _AsmkState(version, view.roots(), view.removed(), parts)

    @cached_property
    def _checked(self) -> set[tuple[str, str]]:
        return set()

    def _refuse_damaged(self, files: Mapping[str, str]) -> None:
        for name in files:
            regular(self.folder / name)
        for problem in damaged_files(self.folder, files, "restore it or build again"):
            raise SolarError(problem)


class AsmkWriter(FolderWriter):
    """One change to an ASMK* index."""

    patterns = ("postings-*",)

    def __init__(self, folder: Path, view: View, blocks: int) -> None:
        super().__init__(folder, view)
        self._blocks = blocks

    def add(self, batches: Iterable[Described]) -> int:
        """Put photos into new inverted files; they replace older ones of the same path."""
        rows, given, replaced = self._version.rows, 0, 0
        parts = list(self._version.codes)
        waiting: list[Signatures] = []

        def write() -> None:
            parts.append(self._write(Postings.gather(waiting, self._blocks), len(parts)))
            waiting.clear()

        for photos, signatures in batches:
            if len({photo.path for photo in photos}) < len(photos):
                raise SolarError("Two of the new photos share a path: paths must be unique.")
            replaced += self._view.put(photos, rows + given)
            given += len(photos)
            waiting += signatures
            if len(waiting) >= _PHOTOS:
                write()
        if waiting:
            write()
        now = self._version.photos + given - replaced
        self._commit(replace(self._version, rows=rows + given, photos=now, codes=tuple(parts)))
        return given

    def compact(self) -> None:
        """Rewrite inverted files that are small or hold removed photos."""
        present = np.ones(self._version.rows, bool)
        present[self._view.removed()] = False
        parts: list[CodesFile] = []
        group: list[tuple[Postings, Flags]] = []
        first = 0
        for part in self._version.codes:
            kept = present[first : first + part.rows]
            first += part.rows
            group.append((Postings.mapped(self._folder / part.name), kept))
            if sum(int(some.sum()) for _, some in group) >= _PHOTOS:
                parts.append(self._write(Postings.merged(group), len(parts)))
                group = []
        if group:
            parts.append(self._write(Postings.merged(group), len(parts)))
        self._view.renumber()
        self._commit(replace(self._version, rows=self._version.photos, codes=tuple(parts)))

    def _write(self, postings: Postings, number: int) -> CodesFile:
        path = self._folder / f"postings-{self._version.number + 1}-{number}.npy"
        with path.open("wb") as file:
            postings.write(file)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._folder)
        return CodesFile(path.name, len(postings.counts), file_digest(path))


def _best(scores: Floats, k: int, allowed: RowNumbers | None) -> list[tuple[int, float]]:
    """The k best rows with a score above 0, best first, equal ones by row."""
    rows = np.flatnonzero(scores > 0) if allowed is None else allowed[scores[allowed] > 0]
    if len(rows) > k:
        least = -np.partition(-scores[rows], k - 1)[k - 1]
        rows = rows[scores[rows] >= least]
    rows = rows[np.argsort(-scores[rows], kind="stable")][:k]
    return list(zip(rows.tolist(), scores[rows].tolist(), strict=True))


def open_index(
    address: str | os.PathLike[str], model: LocalModel | str | None, metadata: Metadata
) -> AsmkIndex:
    """Open an ASMK* index; see `Index.open`."""
    return AsmkIndex(AsmkFolder(Path(address), metadata.facts[0], metadata), model)


class AsmkIndex(PhotoIndex):
    """Photos that are found by their local features; `Index.open` opens one.

    Whatever needs one vector per photo raises a `NoVectorsError`: queries that are vectors, copies
    to other engines, re-ranking methods that take vectors. A search finds photos that share a
    visual word with the query. The features of several query photos are pooled. A query that is an
    indexed photo is read from its file. A photo scores less than 1 for itself, because features of
    a query fall on several visual words.

    `model` describes keypoints of queries; by default the one named in the index.
    """

    engine: AsmkFolder

    def __init__(self, engine: AsmkFolder, model: LocalModel | str | None = None) -> None:
        super().__init__(engine)
        self._chosen = model

    @cached_property
    def local(self) -> LocalModel:
        """What describes keypoints; a SolarError if it is not what described the photos."""
        from solar.models.hub.repository import refuse_moved, refuse_unfetched

        if not self._chosen:
            refuse_unfetched(self.spec.model)
            refuse_moved(self.spec.model)
        model = local_model(self._chosen or self.spec.model)
        if local_fingerprint(model) != self.spec.fingerprint:
            raise SolarError(
                f"The index was made with other local features ({self.spec.model}): search with "
                "those, or build the index again."
            )
        return model

    def load_model(self, shared: dict[str, QueryEncoder] | None = None) -> None:
        """Load what describes keypoints, and the visual words."""
        _ = self.local, self.engine.codebook

    def add_photos(
        self,
        photos: Photos,
        *,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
        **_: Any,
    ) -> dict[str, str]:
        """Find local features, and add photos; see `PhotoIndex.add_photos`."""
        settings, words = self.spec.settings, self.engine.codebook
        failures = dict[str, str]()
        with self.engine.filling(), working_folder(self.engine.folder) as place:
            finder = Finder(self.local, settings["keypoints"], settings["size"], place)
            found = finder.signatures(photos, words, failures, extra=extra, progress=progress)
            self.engine.add_signatures(found)
        return failures

    def signatures(self, query: Any, *, box: Box | None = None) -> Signatures:
        """The visual words of a query; arguments and errors as those of `search`."""
        parts = [(self._source(part.photo), part.box) for part in self.query_parts(query, box)]
        known = {name: self.spec.settings[name] for name in ("keypoints", "size")}
        found = [local_features(photo, self.local, box=box, **known) for photo, box in parts]
        descriptors = np.concatenate([features.descriptors for features in found])
        if not len(descriptors):
            raise SolarError("The query has no keypoints to look for: choose a photo with detail.")
        return aggregate(descriptors, self.engine.codebook, ASSIGN)

    encode = signatures

    def nearest(self, asked: Sequence[Signatures], count: int, where: Where) -> list[list[Hit]]:
        """Photos that share visual words with these; see `PhotoIndex.nearest`."""
        return self.engine.search_signatures(asked, count, where)

    def _source(self, part: Any) -> Source:
        """The query itself, or the file of an indexed photo."""
        if not self._is_photo(part) and not isinstance(part, str):
            raise NoVectorsError
        photo = self.photo_of(part)
        if not isinstance(photo, Photo):
            return photo
        found = self.roots.find(photo.path)
        if found is None:
            raise SolarError(
                f"{photo.path} is indexed, but its photo is not in {self.roots}: give a file "
                "instead."
            )
        return found
