"""What an index of any kind does beside searching: say what it holds, add and forget photos."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from solar.errors import SolarError
from solar.index.search import Searchable
from solar.index.sources import BATCH, batches
from solar.local.cache import count_kept, forget_others, own_folder
from solar.storage.protocol import NoVectorsError
from solar.storage.types import REMOVED, Amendment, Photo, Skipped

if TYPE_CHECKING:
    from typing import Self

    import numpy.typing as npt

    from solar.arrays import Vectors
    from solar.describe.pipeline import QueryEncoder
    from solar.describe.progress import Progress
    from solar.images import Photos
    from solar.models import RetrievalNet
    from solar.storage.rows import Matrix


class PhotoIndex(Searchable):
    """Photos that can be searched: `Index` compares vectors, `AsmkIndex` local features."""

    def __len__(self) -> int:
        return len(self.engine)

    def __repr__(self) -> str:
        made = f", described by {self.spec.model}" if self.spec.model else ""
        return f"<{type(self).__name__} {self.place!r}: {len(self):,} photos{made}>"

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and bool(self.engine.find([path]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def place(self) -> str:
        """Where it is: its folder, or its address without a password."""
        return str(self.engine.folder or self.engine)

    @property
    def skipped(self) -> dict[str, str]:
        """Files below the roots that could not be indexed, and why."""
        return {name: one.reason for name, one in self.engine.skipped().items()}

    def remove(self, paths: str | Sequence[str]) -> int:
        """Remove photos, all at once, and say how many.

        They stay out when the index is updated or their folder is added again, until `restore`; a
        file of another name is another photo. A Milvus collection does not remember that.

        Raises:
            SolarError: One of them is not indexed, or another writer is at work.
        """
        gone = dict.fromkeys([paths] if isinstance(paths, str) else paths)
        known = self.engine.find(list(gone))
        if unknown := [path for path in gone if path not in known]:
            raise SolarError(f"{unknown[0]} is not in {self.place}: nothing was removed.")
        marks = {path: Skipped(REMOVED) for path in gone}
        skipped = {**self.engine.skipped(), **marks}
        self.engine.amend(Amendment(removed=list(gone), skipped=skipped))
        return len(gone)

    @property
    def removed(self) -> list[str]:
        """Photos that were removed and stay out."""
        marked = [n for n, one in self.engine.skipped().items() if one.reason == REMOVED]
        there = self.engine.find(marked)
        return [name for name in marked if name not in there]

    def restore(self, paths: Sequence[str]) -> None:
        """Let removed photos be indexed again, which the next update does.

        Raises:
            SolarError: One of them was not removed, or another writer is at work.
        """
        skipped = self.engine.skipped()
        for path in paths:
            if path not in skipped or skipped.pop(path).reason != REMOVED:
                raise SolarError(f"{path} was not removed from the index: check its path.")
        self.engine.amend(Amendment(skipped=skipped))

    def info(self) -> dict[str, Any]:
        """Facts about the index: model, engine, photos, bytes and what the engine adds."""
        known = asdict(self.spec)
        facts = {name: known[name] for name in ("model", "fingerprint", "settings", "dim")}
        facts["roots"] = [root.path for root in self.roots.roots]
        facts["skipped"] = len(self.engine.skipped())
        facts |= self.engine.info()
        if (folder := own_folder(self.engine.folder)) is not None:
            facts["local_features"], facts["bytes_of_local_features"] = count_kept(folder)
        return facts

    def check(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence per problem."""
        return self.engine.check()

    def compact(self) -> None:
        """Reclaim space from removed photos and rebuild the search index."""
        self.engine.compact()
        if (folder := own_folder(self.engine.folder)) is not None:
            forget_others(folder, self.paths)

    def close(self) -> None:
        """Close files and connections."""
        self.kept.clear()
        self.engine.close()

    # What takes embeddings: other indexes raise a NoVectorsError.

    @property
    def model(self) -> RetrievalNet:
        """The network of the embeddings."""
        raise NoVectorsError

    @property
    def encoder(self) -> QueryEncoder:
        """Describes queries as the photos were described."""
        raise NoVectorsError

    def _no_vectors(self, *_: Any, **__: Any) -> Any:
        raise NoVectorsError

    describe = search_vectors = copy = _no_vectors

    def mapped(self) -> tuple[list[Photo], Matrix]:
        """All photos with their vectors (n, dim), mapped where they are in a folder."""
        return self.engine.mapped()

    @property
    def vectors(self) -> Matrix:
        """The embeddings of all photos (n, dim), mapped; row by row those of `paths`."""
        return self.mapped()[1]

    @property
    def paths(self) -> list[str]:
        """The paths of all photos, in the order of `vectors`."""
        return [photo.path for batch in self.engine.photos() for photo in batch]

    def batches(self, rows: int = BATCH) -> Iterator[tuple[list[Photo], Vectors]]:
        """Photos and their vectors (n, dim) in pieces, in the order of `paths`."""
        return self.engine.batches(rows)

    def add(self, vectors: npt.ArrayLike, photos: Sequence[str | Photo]) -> int:
        """Add vectors (n, dim) that were made as those of the index, all at once or none.

        Args:
            vectors: Of norm 1.
            photos: Their paths, or all that is known of them; those of the index are replaced.

        Returns:
            How many photos were given.

        Raises:
            SolarError: They do not fit, another writer is at work, or the disk is full.
        """
        return self.engine.add(batches(vectors, photos))

    def refuse_unknown_model(self) -> None:
        """A SolarError if it is not known how to describe more photos."""

    @abstractmethod
    def add_photos(
        self,
        photos: Photos,
        *,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
        **describing: Any,
    ) -> dict[str, str]:
        """Describe photos as the indexed ones were, and add them or replace those of the same path.

        `extra` has tags, own fields and other facts of photos, by name; `describing` says how, as
        for `solar.build`. Returns names of photos that could not be described, and why.
        """

    # Queries

    @abstractmethod
    def load_model(self, shared: dict[str, QueryEncoder] | None = None) -> None:
        """Load the model for queries now rather than at the first search.

        `shared` holds the encoders of several indexes, so that each network is in memory once.
        """
