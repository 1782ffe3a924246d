"""An index of photos: one interface, and an engine chosen by its address.

`photos.solar` is a folder beside you, `milvus://host:19530/photos` a collection on a server.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from solar.errors import SolarError
from solar.search.engine import (
    Condition,
    DescriptorSpec,
    Engine,
    Hit,
    Photo,
    Vectors,
    Where,
    parse_where,
)
from solar.search.ingest import BATCH, batches, made_of

if TYPE_CHECKING:
    from solar.describe.local import LocalFeatures
    from solar.describe.query_encoder import QueryEncoder
    from solar.describe.store import Store
    from solar.images import Box, Source
    from solar.models import RetrievalNet
    from solar.search.verify import Verifier, VerifySettings

Address: TypeAlias = str | os.PathLike[str]
Conditions: TypeAlias = str | Sequence[str | Condition] | None

MILVUS = "milvus://"
BY_NAME = "name:"
"""Before a text that names an indexed photo, even if a file is called the same."""

# A GPU's bfloat16 moves vectors too little to matter, and boxes belong to single photos.
_OF_NO_ACCOUNT = frozenset({"device", "boxes"})
# As many neighbours as the published expansions look at; `expand_query` takes its own share.
_NEIGHBOURS = 64


class Index:
    """Photos that can be searched; make one with `Index.create` or `Index.open`.

    Example:
        >>> index = Index.open("photos.solar")  # doctest: +SKIP
        >>> index.search("query.jpg", k=1, where="tag=night")  # doctest: +SKIP
        [Hit(path='rome/12.jpg', score=0.83)]

    Args:
        engine: Where the vectors are.
        model: What describes photos given as queries; the one named in the index if not given.
    """

    def __init__(self, engine: Engine, model: RetrievalNet | str | None = None) -> None:
        self.engine = engine
        self._given = model
        self._model: RetrievalNet | None = None
        self._encoder: QueryEncoder | None = None
        self._verifier: Verifier | None = None

    @classmethod
    def create(
        cls,
        address: Address,
        source: Store | npt.ArrayLike,
        photos: Sequence[str | Photo] | None = None,
        *,
        made: DescriptorSpec | None = None,
        model: RetrievalNet | str | None = None,
        **options: Any,
    ) -> Index:
        """Make an index and fill it: whole, or not at all.

        Args:
            address: A new folder, or `milvus://host:port/collection`.
            source: A finished store, or vectors (n, dim).
            photos: Their paths, or all that is known of them; a store knows its own.
            made: How the vectors were made; a store knows that too.
            model: What describes queries; the one that `made` names if not given.
            **options: For the engine: `compress=` of `solar.search.folder_engine.create`, or those
                of `solar.search.milvus_engine.create`.

        Raises:
            SolarError: The address is taken or cannot be written, or photos and vectors do not fit
                together.
        """
        made = made or made_of(source) or DescriptorSpec(np.atleast_2d(np.asarray(source)).shape[1])
        engine = _engines(address).create(address, made, batches(source, photos), **options)
        return cls(engine, model)

    @classmethod
    def open(
        cls, address: Address, *, model: RetrievalNet | str | None = None, **options: Any
    ) -> Index:
        """Open an index, which takes milliseconds whatever its size.

        Raises:
            SolarError: There is no index, or it is damaged or too new.
        """
        engine = _engines(address).open_index(address, **options)
        if getattr(engine, "compress", "") == "asmk":
            found: Index = import_module("solar.search.asmk_index").AsmkIndex(engine, model)
            return found
        return cls(engine, model)

    def __len__(self) -> int:
        return len(self.engine)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and bool(self.engine.lookup([path]))

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def made(self) -> DescriptorSpec:
        """How the vectors were made."""
        return self.engine.made

    @property
    def model(self) -> RetrievalNet:
        """What describes queries, loaded when it is first needed.

        Raises:
            SolarError: It cannot be loaded, or is not the one that made the vectors.
        """
        if self._model is None:
            self._model = self._load_model()
        return self._model

    @property
    def encoder(self) -> QueryEncoder:
        """Describes queries as the photos were described; made when first needed, as `model` is."""
        if self._encoder is None:
            from solar.describe.query_encoder import QueryEncoder

            self._encoder = QueryEncoder(self.model, self.made.settings)
        return self._encoder

    def search(
        self,
        query: Any,
        k: int = 10,
        *,
        box: Box | None = None,
        expand: str | None = None,
        diffuse: bool = False,
        where: Conditions = None,
        verify: bool | VerifySettings = False,
    ) -> list[Hit]:
        """Find the photos most similar to a query.

        Args:
            query: A photo (a path, the bytes of a file, a PIL image, a uint8 array), the path of an
                indexed photo, a vector, or a list of these, whose vectors are averaged.
            k: How many photos at most.
            box: x1, y1, x2, y2 of what to look for in the one photo given.
            expand: `"average"` or `"alpha"`: search again with the query and its best neighbours,
                averaged or weighted by their similarity.
            diffuse: Rank the best thousand by diffusion along the graph of their neighbours; scores
                are then no similarities.
            where: Only photos that satisfy these: see `parse_where`.
            verify: Match the best photos with the query keypoint by keypoint, and put those first
                that show the same thing; see `solar.search.verify`.

        Returns:
            Photos and scores, best first; after verification the best are those with most inliers.

        Raises:
            SolarError: A photo cannot be read or is not indexed, or a condition makes no sense.
        """
        _check_count(k)
        conditions = parse_where(where)
        verifier = self._verifying(verify) if verify else None  # first: it tells what is missing
        count = max(k, verifier.settings.top) if verifier else k
        hits = self._ranked(query, count, box=box, expand=expand, diffuse=diffuse, where=conditions)
        if verifier:
            hits = verifier.verify(self._local(verifier, query, box), hits)
        return hits[:k]

    def search_vectors(
        self, queries: npt.ArrayLike, k: int = 10, *, where: Conditions = None
    ) -> list[list[Hit]]:
        """Search for many vectors (n, dim) at once, which is faster than one after the other."""
        _check_count(k)
        return self.engine.search(self._checked(queries), k, parse_where(where))

    def describe(self, query: Any, *, box: Box | None = None) -> Vectors:
        """The vector (dim,) that `search` looks for; its arguments and errors are the same."""
        vectors = [self._describe_one(part, box) for part in self._parts(query, box)]
        if len(vectors) == 1:
            return vectors[0]
        mean = np.mean(vectors, axis=0, dtype=np.float32)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), np.float32)

    def add(
        self, source: Store | npt.ArrayLike, photos: Sequence[str | Photo] | None = None
    ) -> int:
        """Add photos, or replace those with the same path: all of them at once, or none.

        Args:
            source: A finished store, or vectors (n, dim).
            photos: Their paths, or all that is known of them; a store knows its own.

        Returns:
            How many photos were given.

        Raises:
            SolarError: They were described by another model or with other settings, another writer
                is at work, or the disk is full.
        """
        self._refuse_other(made_of(source))
        return self.engine.add(batches(source, photos))

    def remove(self, paths: str | Sequence[str]) -> int:
        """Remove photos, all at once, and say how many.

        Raises:
            SolarError: One of them is not indexed, or another writer is at work.
        """
        return self.engine.remove([paths] if isinstance(paths, str) else list(paths))

    def photo(self, path: str) -> Photo:
        """What is known of an indexed photo; a SolarError if it is not indexed."""
        return self._find(path)[0]

    def copy(self, address: Address, **options: Any) -> Index:
        """Make the same index elsewhere, on another engine or compressed otherwise."""
        everything = self.engine.batches(BATCH)
        engine = _engines(address).create(address, self.made, everything, **options)
        return Index(engine, self._model or self._given)

    def info(self) -> dict[str, Any]:
        """Facts about the index: model, engine, photos, bytes and what the engine adds."""
        from solar.search.verify import kept_features

        made = self.made
        return {
            "model": made.model,
            "fingerprint": made.fingerprint,
            "settings": dict(made.settings),
            "dim": made.dim,
            "root": made.root,
            **self.engine.info(),
            **kept_features(self.engine),
        }

    def verify(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence a problem."""
        return self.engine.verify()

    def compact(self) -> None:
        """Give back the room of removed photos, and rebuild what speeds searches up."""
        from solar.search.verify import forget_removed

        self.engine.compact()
        forget_removed(self.engine)

    def close(self) -> None:
        """Let go of files and connections."""
        self.engine.close()

    # Queries

    def _ranked(
        self,
        query: Any,
        count: int,
        *,
        box: Box | None,
        expand: str | None,
        diffuse: bool,
        where: Where,
    ) -> list[Hit]:
        """The best photos for a query, before any is verified; arguments as for `search`."""
        vector = self.describe(query, box=box)
        if expand is not None:
            vector = self._expanded(vector, expand, where)
        if diffuse:
            return self._diffused(vector, where)[:count]
        [hits] = self.engine.search(self._checked(vector[None]), count, where)
        return hits

    def _parts(self, query: Any, box: Box | None) -> list[Any]:
        """The photos, paths and vectors that a query consists of."""
        parts = list(query) if isinstance(query, list | tuple) else [query]
        if not parts:
            raise SolarError("A search needs at least one photo.")
        if box is not None and (len(parts) > 1 or not self._is_photo(parts[0])):
            raise SolarError("A box goes with one photo given as a file, not with other queries.")
        return parts

    def _is_photo(self, query: Any) -> bool:
        if isinstance(query, str):
            return not query.startswith(BY_NAME) and Path(query).is_file()
        return not (isinstance(query, np.ndarray) and query.ndim == 1)

    def _describe_one(self, query: Any, box: Box | None) -> Vectors:
        if self._is_photo(query):
            return self._describe_photo(query, box)
        if isinstance(query, str):
            return self._find(query)[1]
        vector: Vectors = self._checked(query[None])[0]
        return vector

    def _describe_photo(self, photo: Source, box: Box | None) -> Vectors:
        return self.encoder(photo, box)

    def _find(self, name: str) -> tuple[Photo, Vectors]:
        path = name.removeprefix(BY_NAME)
        found = self.engine.lookup([name, path])
        if not found:
            where = "not in the index" if name != path else "neither a file nor in the index"
            raise SolarError(f"{path} is {where}: check its path.")
        return found[path] if path in found else found[name]

    def _checked(self, vectors: npt.ArrayLike) -> Vectors:
        queries = np.ascontiguousarray(vectors, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.made.dim:
            raise SolarError(
                f"The index holds vectors of length {self.made.dim}, and the query has the shape "
                f"{queries.shape}: describe it with the same model."
            )
        if not np.isfinite(queries).all():
            raise SolarError("The query holds numbers that are not finite: describe it again.")
        return queries

    def _neighbours(
        self, vector: Vectors, count: int, where: Where
    ) -> tuple[list[str], Vectors, Vectors]:
        """Paths, vectors (n, dim) and scores (n,) of the best photos, best first."""
        [hits] = self.engine.search(vector[None], count, where)
        found = self.engine.lookup([hit.path for hit in hits])
        hits = [hit for hit in hits if hit.path in found]  # one may just have been removed
        vectors = [found[hit.path][1] for hit in hits]
        scores = np.array([hit.score for hit in hits], np.float32)
        return [h.path for h in hits], np.reshape(vectors, (-1, self.made.dim)), scores

    def _expanded(self, vector: Vectors, method: str, where: Where) -> Vectors:
        from solar.search.expand import Method, expand_query

        _, vectors, scores = self._neighbours(vector, _NEIGHBOURS, where)
        others = (vectors != vector).any(axis=1)  # without the query, where it is indexed
        return expand_query(vector, vectors[others], scores[others], method=cast("Method", method))

    def _diffused(self, vector: Vectors, where: Where) -> list[Hit]:
        """Diffuse among the best photos of a plain search: no graph of all photos is needed."""
        from solar.search.diffuse import TRUNCATE, build_graph, diffuse
        from solar.search.neighbours import exact_neighbours

        paths, vectors, scores = self._neighbours(vector, TRUNCATE, where)
        graph = build_graph(len(paths), exact_neighbours(vectors), lambda rows: vectors[rows])
        rows, scores = diffuse(np.arange(len(paths)), scores, graph)
        pairs = zip(rows.tolist(), scores.tolist(), strict=True)
        return [Hit(paths[row], score) for row, score in pairs]

    def _verifying(self, verify: bool | VerifySettings) -> Verifier:
        """What verifies, kept from search to search: it may have a network to load."""
        from solar.search.verify import VerifySettings, index_verifier

        settings = verify if isinstance(verify, VerifySettings) else VerifySettings()
        if self._verifier is None or self._verifier.settings != settings:
            self._verifier = index_verifier(self.engine, settings)
        return self._verifier

    def _local(self, verifier: Verifier, query: Any, box: Box | None) -> list[LocalFeatures]:
        """The keypoints of a query's photos."""
        features = []
        for part in self._parts(query, box):
            if self._is_photo(part):
                features.append(verifier.query(part, box=box))
            elif isinstance(part, str):
                features.append(verifier.features(self._find(part)[0].path))
            else:
                raise SolarError("Verification needs the query's photo, not only its vector.")
        return features

    def _load_model(self) -> RetrievalNet:
        from solar.models import fingerprint, retrieval_model

        model = self._given if self._given is not None else self.made.model
        if not model:
            raise SolarError("The index does not name its model: pass the one that describes.")
        network = retrieval_model(model)
        if self.made.fingerprint and fingerprint(network) != self.made.fingerprint:
            raise SolarError(
                f"The index was made with another model ({self.made.model or 'unnamed'}): "
                "search with that one, or build the index again."
            )
        return network

    def _refuse_other(self, made: DescriptorSpec | None) -> None:
        ours = self.made
        if made is None or not (made.fingerprint and ours.fingerprint):
            return
        if made.fingerprint != ours.fingerprint:
            raise SolarError(
                f"The index was made with {ours.model}, the new vectors with another model "
                f"({made.model}): describe the photos with the same one."
            )
        before, now = _comparable(ours), _comparable(made)
        if before != now:
            raise SolarError(
                f"The index was made with the settings {before}, the new vectors with {now}: "
                "describe the photos with the same ones."
            )


def _check_count(k: int) -> None:
    if k < 1:
        raise SolarError(f"A search gives at least one photo, not {k}.")


def _comparable(made: DescriptorSpec) -> dict[str, Any]:
    """The settings in which vectors must agree to be compared."""
    return {name: value for name, value in made.settings.items() if name not in _OF_NO_ACCOUNT}


def _engines(address: Address) -> ModuleType:
    """The module whose `create` and `open_index` understand an address."""
    milvus = isinstance(address, str) and address.startswith(MILVUS)
    return import_module("solar.search.milvus_engine" if milvus else "solar.search.folder_engine")
