"""What an index of any kind does: search, re-rank, say what it holds, forget photos."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from solar.errors import SolarError
from solar.images import Roots
from solar.images.roots import expanded
from solar.index.location import Location, find_location
from solar.ranking.calibration import Calibration, calibration_of
from solar.ranking.query import (
    Part,
    Together,
    Words,
    as_vector,
    has_words,
    parts_of,
    read_files,
    shown,
    with_words,
)
from solar.ranking.rerank import AUTO, METHODS, check_needs, chosen
from solar.ranking.results import SearchResults
from solar.ranking.verify import FRESH, VerifySettings, kept_verifier
from solar.storage.conditions import Condition, Where, parse_where
from solar.storage.protocol import Storage
from solar.storage.types import DescriptorSpec, Hit, Photo

if TYPE_CHECKING:
    from typing import Self

    from solar.describe.progress import Progress
    from solar.images import Box, Photos, Source


T = TypeVar("T")
Conditions: TypeAlias = str | Sequence[str | Condition] | None

BY_NAME = "name:"
"""Before a text that names an indexed photo, even if a file is called the same."""


class NoVectorsError(SolarError, AttributeError):
    """An index of local features was asked for what takes one vector a photo."""

    def __init__(self) -> None:
        super().__init__(
            "This index compares local features (ASMK) and has no vectors for that: build one "
            "with `solar index build` instead."
        )


class PhotoIndex(ABC):
    """Photos that can be searched: `Index` compares vectors, `AsmkIndex` local features."""

    has_vectors: ClassVar[bool] = False
    """Whether there is one embedding per photo, which some re-ranking methods need."""

    def __init__(self, engine: Storage) -> None:
        self.engine = engine
        self._kept: dict[str, Any] = {}

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
        folder = getattr(self.engine, "folder", None)
        return str(self.engine if folder is None else folder)

    @property
    def spec(self) -> DescriptorSpec:
        """How the photos were described."""
        return self.engine.spec

    @property
    def roots(self) -> Roots:
        """Where the photos are: folders, lists or tar shards."""
        return self.engine.roots

    @property
    def skipped(self) -> dict[str, str]:
        """Files below the roots that could not be indexed, and why."""
        return {name: one.reason for name, one in self.engine.skipped().items()}

    def search(
        self,
        query: Any = None,
        k: int = 10,
        *,
        text: str | None = None,
        box: Box | None = None,
        rerank: str | Sequence[str] | None = AUTO,
        where: Conditions = None,
        verify: VerifySettings | None = None,
        include_self: bool = False,
        min_probability: float | None = None,
    ) -> list[Hit]:
        """Find the photos that show the same place or object as a query.

        Args:
            query: A photo (whatever `solar.images.load` takes: a path, the bytes of a file, an
                image, an array, …), the path of an indexed photo, a vector (dim,) or (1, dim), or
                a `Part`: one of these with its box.
                For several queries: `search_many` for each separately, `search_mean` for all
                together.
            k: How many photos at most.
            text: What the photos show, in words, for models with a text encoder. Together with a
                photo, the sum of both vectors is searched for. By default, results of a text are
                ranked by similarity alone; they have no probabilities.
            box: The part of a single query photo to search with: x1, y1, x2, y2.
            rerank: Re-ranking methods, in order: names of `solar.ranking.rerank.METHODS`, as a list
                or separated by commas (`"alpha,verify"`). After some of them, scores are no longer
                similarities, unless verification comes last. `"auto"` uses what `default_rerank`
                returns, unless `verify` is given; None ranks by similarity alone.
            where: Only photos that satisfy these conditions, see `parse_where`.
            verify: Settings of `rerank="verify"`, which they imply; see `solar.ranking.verify`.
            include_self: Include the query itself if it is an indexed photo, given by its file or
                its path. A copy of it is a different photo, and always included.
            min_probability: Only photos with at least this probability of showing the same place,
                from 0 to 1; for calibrated models, see `solar.ranking.calibration`.

        Returns:
            Photos with scores and probabilities, best first; after verification, the most probable
            first.

        Raises:
            SolarError: A photo cannot be read or is not indexed, a condition is invalid, a
                re-ranking method does not exist or does not work with this index or query, there
                are no probabilities, or the model has no text encoder.
        """
        check_count(k)
        if isinstance(query, list | tuple) and not isinstance(query, Together):
            raise SolarError(
                "search takes one query: call search_many to search for each of several, or "
                "search_mean to search for all of them by their mean."
            )
        query = with_words(read_files(query), text)
        return self._search(
            *(query, k, set() if include_self else self._own(query)),
            box=box,
            rerank=rerank,
            where=where,
            verify=verify,
            min_probability=min_probability,
            calibration=self.calibration if text is None else None,
        )

    def _search(
        self,
        query: Any,
        k: int,
        left_out: set[str],
        *,
        vector: Any = None,
        box: Box | None = None,
        rerank: str | Sequence[str] | None = AUTO,
        where: Conditions = None,
        verify: VerifySettings | None = None,
        min_probability: float | None = None,
        calibration: Calibration | None = None,
    ) -> list[Hit]:
        """Search without some photos, for a query or another `vector` in its place."""
        conditions = parse_where(where)
        names = chosen(None if rerank == AUTO else rerank)
        if verify is not None and "verify" not in names:
            names.append("verify")
        automatic = rerank == AUTO and not names
        if automatic:
            names, _ = self.default_rerank(query)
            verify = VerifySettings(fresh=FRESH)
        check_needs(names, vectors=self.has_vectors)
        more = len(left_out)

        def find(asked: Any, count: int) -> list[Hit]:
            hits = self.nearest(asked, count + more, conditions)
            return [hit for hit in hits if hit.path not in left_out][:count]

        results = SearchResults(
            self.engine,
            cache(lambda: self._described(query, box=box) if vector is None else vector),
            find,
            lambda: [
                Part(self._photo_of(part.photo), part.box)
                for part in shown(self._parts(query, box))
            ],
            k,
            settings={} if verify is None else {"verify": verify},
            kept=self._kept,
            calibration=calibration,
        )
        for name in names:
            # Errors of automatic re-ranking are ignored.
            with suppress(SolarError) if automatic else nullcontext():
                results = METHODS[name].rerank(results)
        hits = results.rated(k)
        if min_probability is not None:
            calibrated = self.calibration is not None
            hits = results.probable(hits, min_probability, names, calibrated=calibrated)
        return self.located(hits)

    def default_rerank(
        self, query: Any = None, *, photos: str | Path | None = None
    ) -> tuple[list[str], str]:
        """The re-ranking that `search` uses by default.

        Args:
            query: As for `search`; None to ask about the index alone.
            photos: The folder of the photos, if they have moved.

        Returns:
            Names of methods: verification if OpenCV is installed, the photos can be found, and the
            query is a photo. Otherwise an empty list, and a sentence with the reason; the reason is
            empty for an ASMK index and for a query with a text, which need no re-ranking.
        """
        if not self.has_vectors:
            return [], ""
        try:
            parts = [] if query is None else self._parts(query, None)
            if has_words(parts):
                return [], ""
            found = [self._photo_of(part.photo) for part in parts]  # a vector has none
            settings = VerifySettings(fresh=FRESH, photos=photos)
            verifier = kept_verifier(self.engine, settings, self._kept)
            for photo in found:
                if isinstance(photo, Photo):
                    verifier.features(photo.path)
        except SolarError as error:
            return [], str(error)
        return ["verify"], ""

    @property
    def calibration(self) -> Calibration | None:
        """What makes probabilities of scores; None if the model of the index has none."""
        return calibration_of(self.spec.fingerprint)

    def locate(self, query: Any, **options: Any) -> Location:
        """Estimate where a photo was taken, from verified matches whose position is known.

        Args:
            query: As for `search`. The position of an indexed photo itself does not count.
            **options: `box` and `include_self` as for `search`, and `verify`, how to verify.
        """
        return find_location(self.search, self.engine, query, **options)

    def search_mean(self, queries: Sequence[Any], k: int = 10, **options: Any) -> list[Hit]:
        """Search with several queries together, by the mean of their vectors.

        Args:
            queries: Usually views of one thing; each as for `search`, or a `Part` with a box.
            k: How many photos at most.
            **options: As for `search`.
        """
        return self.search(Together(queries), k, **options)

    def search_many(self, queries: Iterable[Any], k: int = 10, **options: Any) -> list[list[Hit]]:
        """Search for many queries, each for itself.

        Arguments are as for `search`, but without `rerank` photos are ranked by similarity alone.
        """
        options.setdefault("rerank", None)
        return [self.search(query, k, **options) for query in queries]

    def located(self, hits: Sequence[Hit]) -> list[Hit]:
        """The same photos with the places of their files on this machine."""
        roots = self.engine.roots_seen
        if not roots:
            return list(hits)
        return [replace(hit, absolute=roots.absolute(hit.path)) for hit in hits]

    def remove(self, paths: str | Sequence[str]) -> int:
        """Remove photos, all at once, and say how many.

        Raises:
            SolarError: One of them is not indexed, or another writer is at work.
        """
        return self.engine.remove([paths] if isinstance(paths, str) else list(paths))

    def photo(self, path: str) -> Photo:
        """An indexed photo with its metadata; a SolarError if it is not indexed."""
        return self._named(path, self.engine.find)

    def info(self) -> dict[str, Any]:
        """Facts about the index: model, engine, photos, bytes and what the engine adds."""
        from solar.ranking.verify import kept_features

        known = asdict(self.spec)
        facts = {name: known[name] for name in ("model", "fingerprint", "settings", "dim")}
        facts["roots"] = [root.path for root in self.roots.roots]
        facts["skipped"] = len(self.engine.skipped())
        return {**facts, **self.engine.info(), **kept_features(self.engine)}

    def check(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence per problem."""
        return self.engine.check()

    def compact(self) -> None:
        """Reclaim space from removed photos and rebuild the search index."""
        from solar.ranking.verify import forget_removed

        self.engine.compact()
        forget_removed(self.engine)

    def close(self) -> None:
        """Close files and connections."""
        self.engine.close()

    @abstractmethod
    def add_photos(
        self,
        photos: Photos,
        *,
        store: str | Path | None = None,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
        **describing: Any,
    ) -> dict[str, str]:
        """Describe photos as the indexed ones were, and add them or replace those of the same path.

        Args:
            photos: The photos.
            store: Keep what was computed there. Default: it is deleted afterwards.
            extra: Tags and times of photos, by name.
            progress: Called while photos are described.
            **describing: How to describe them, as for `solar.add`.

        Returns:
            Names of photos that could not be described, and why.
        """

    def read_boxes(self, path: str | Path, names: Collection[str]) -> dict[str, list[Box]]:
        """Read a file of boxes in these photos, for an index that was built with one.

        Raises:
            SolarError: The index takes no boxes, or the file is damaged or names other photos.
        """
        raise SolarError(
            "`regions=` needs an ASMK index that was built with a file of boxes: build one "
            "with `solar index build --method asmk --regions FILE`."
        )

    # Queries

    @abstractmethod
    def load_model(self) -> None:
        """Load the model for queries now rather than at the first search."""

    @abstractmethod
    def _described(self, query: Any, *, box: Box | None = None) -> Any:
        """What `nearest` looks for."""

    @abstractmethod
    def nearest(self, asked: Any, count: int, where: Where) -> list[Hit]:
        """The photos most like a described query that satisfy `where`, best first."""

    def _parts(self, query: Any, box: Box | None) -> list[Part]:
        """The photos, paths and vectors that a query consists of."""
        parts = parts_of(query, box)
        if any(part.box is not None and not self._is_photo(part.photo) for part in parts):
            raise SolarError("A box needs a single query photo, given as a file.")
        return parts

    def _own(self, query: Any) -> set[str]:
        """The paths of indexed photos that a query itself is."""
        paths = set[str]()
        for part in [one.photo for one in parts_of(query)]:
            if isinstance(part, str) and not self._is_photo(part):
                paths |= {part, part.removeprefix(BY_NAME)}
            elif isinstance(part, str | os.PathLike):
                paths |= {name for name in [self.roots.name_of(expanded(Path(part)))] if name}
        return set(self.engine.find(list(paths))) if paths else paths

    def _is_photo(self, query: Any) -> bool:
        if isinstance(query, Words):
            return False
        if isinstance(query, str):
            if query.startswith(BY_NAME):
                return False
            return os.path.exists(expanded(query))  # noqa: PTH110 (any text at all may come)
        return as_vector(query) is None

    def _named(self, name: str, find: Callable[[Sequence[str]], Mapping[str, T]]) -> T:
        """What is found of an indexed photo, by its path or `name:` and its path."""
        path = name.removeprefix(BY_NAME)
        found = find([name, path])
        if not found:
            where = "not in the index" if name != path else "neither a file nor in the index"
            raise SolarError(f"{path} is {where}: check its path.")
        return found[path] if path in found else found[name]

    def _photo_of(self, part: Any) -> Source | Photo:
        """A part of a query, for methods that look at photos."""
        if self._is_photo(part):
            photo: Source = part
            return photo
        if isinstance(part, str):
            return self.photo(part)
        raise SolarError("Verification needs a query photo, not only a vector.")


def check_count(k: int) -> None:
    """Refuse a search for no photo."""
    if k < 1:
        raise SolarError(f"k must be 1 or more, not {k}.")
