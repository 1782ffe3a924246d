"""Searching an index: by similarity first, then with one re-ranking method after the other."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict, TypeVar, cast

import numpy as np

from solar.errors import SolarError
from solar.images import Roots
from solar.images.roots import expanded
from solar.ranking.background import Surroundings
from solar.ranking.calibration import Calibration, calibration_of
from solar.ranking.feedback import arranged, updated
from solar.ranking.query import (
    Part,
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
from solar.storage.own_fields import FieldValue
from solar.storage.protocol import Engine, NoVectorsError
from solar.storage.types import DescriptorSpec, Hit, Photo

if TYPE_CHECKING:
    from typing import Unpack

    from solar.arrays import Vectors
    from solar.images import Box, Source

T = TypeVar("T")
Conditions: TypeAlias = str | Sequence[str | Condition] | Mapping[str, FieldValue] | None

BY_NAME = "name:"
"""Before a text that names an indexed photo, even if a file is called the same."""

# Where results are filtered by their paths, as many are looked at.
_MOST = 10_000


@dataclass(frozen=True)
class SearchSettings:
    """How to search.

    Attributes:
        k: How many photos at most.
        text: What the photos show, in words, for models with a text encoder. Together with a
            photo, the sum of both vectors is searched for. By default, results of a text are
            ranked by similarity alone; they have no probabilities.
        box: The part of a single query photo to search with: x1, y1, x2, y2.
        like: Correct photos, each as a query: the search moves towards them, see
            `solar.ranking.feedback`. Those that are indexed come first among the results, as far
            as they pass the filters. There are no probabilities then.
        unlike: Wrong photos. Those that are indexed come last.
        rerank: Re-ranking methods, in order: names of `solar.ranking.rerank.METHODS`, as a list
            or separated by commas (`"alpha,verify"`). After some of them, scores are no longer
            similarities, unless verification comes last. `"auto"` uses what `default_rerank`
            returns, unless `verify` is given; None ranks by similarity alone.
        lenient: Leave out re-ranking methods that fail, as `"auto"` does.
        where: Only photos that satisfy these conditions, see `parse_where`.
        only: Only photos whose paths satisfy this, too.
        verify: Settings of `rerank="verify"`, which they imply; see `solar.ranking.verify`.
        include_self: Include the query itself if it is an indexed photo, given by its file or
            its path. A copy of it is a different photo, and always included.
        min_score: Only photos with at least this score.
        min_probability: Only photos with at least this probability of showing the same place,
            from 0 to 1; for calibrated models, see `solar.ranking.calibration`.
    """

    k: int = 10
    text: str | None = None
    box: Box | None = None
    like: str | Sequence[Any] = ()
    unlike: str | Sequence[Any] = ()
    rerank: str | Sequence[str] | None = AUTO
    lenient: bool = False
    where: Conditions = None
    only: Callable[[str], bool] | None = None
    verify: VerifySettings | None = None
    include_self: bool = False
    min_score: float | None = None
    min_probability: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.k, int | np.integer) or self.k < 1:
            raise SolarError(f"k must be a whole number of 1 or more, not {self.k!r}.")


class SearchOptions(TypedDict, total=False):
    """What every search takes by name, see `SearchSettings`."""

    text: str | None
    box: Box | None
    rerank: str | Sequence[str] | None
    where: Conditions
    verify: VerifySettings | None
    include_self: bool
    min_probability: float | None


class Searchable(ABC):
    """What an index of any kind needs for a search, and the search itself."""

    has_vectors: ClassVar[bool] = False
    """Whether there is one embedding per photo, which some re-ranking methods need."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.kept: dict[str, Any] = {}  # by re-ranking methods, between searches
        self._fields = set[str]()  # own fields that a photo had

    @property
    def spec(self) -> DescriptorSpec:
        """How the photos were described."""
        return self.engine.spec

    @property
    def roots(self) -> Roots:
        """Where the photos are: folders, lists or tar shards."""
        return self.engine.roots

    @property
    def calibration(self) -> Calibration | None:
        """What makes probabilities of scores; None if the model of the index has none."""
        return calibration_of(self.spec.fingerprint, self.engine.folder)

    @abstractmethod
    def encode(self, query: Any, *, box: Box | None = None) -> Any:
        """What `nearest` looks for; arguments and errors are those of `search`."""

    @abstractmethod
    def nearest(self, asked: Sequence[Any], count: int, where: Where) -> list[list[Hit]]:
        """The photos most like each encoded query that satisfy `where`, best first."""

    def lookup(self, paths: Sequence[str]) -> dict[str, tuple[Photo, Vectors]]:
        """Indexed photos and their embeddings (dim,), by path; unknown paths are left out."""
        return self.engine.lookup(paths)

    def conditions(self, where: Conditions) -> Where:
        """Conditions as `parse_where` reads them; a SolarError names a field that no photo has."""
        conditions = parse_where(where)
        for name in {one.field for one in conditions if one.own} - self._fields:
            if not self.engine.has_field(name):
                there = ", ".join([*self.engine.field_names(), "tag, path, width, height, taken"])
                raise SolarError(
                    f"No photo of this index has the field {name!r}: there is {there} and near."
                )
            self._fields.add(name)
        return conditions

    def search(self, query: Any = None, k: int = 10, **options: Unpack[SearchOptions]) -> list[Hit]:
        """Find the photos that show the same place or object as a query.

        Args:
            query: A photo (whatever `solar.images.load` takes: a path, the bytes of a file, an
                image, an array, …), the path of an indexed photo, a vector (dim,) or (1, dim), or
                a `Part`: one of these with its box.
                For several queries: `search_many` for each separately, `search_mean` for all
                together.
            k: How many photos at most.
            **options: Fields of `SearchSettings`: `text`, what the photos show in words; `box`, the
                part of the photo to search with; `rerank`, re-ranking methods in order, where None
                ranks by similarity alone; `where`, conditions that photos must satisfy; `verify`,
                settings of geometric verification; `include_self`, whether the query itself is
                included if it is indexed; `min_probability`, how probable photos must be.

        Returns:
            Photos with scores and probabilities, best first; after verification, the most probable
            first.

        Raises:
            SolarError: A photo cannot be read or is not indexed, a condition is invalid, a
                re-ranking method does not exist or does not work with this index or query, there
                are no probabilities, or the model has no text encoder.
        """
        if isinstance(query, list | tuple):
            raise SolarError(
                "search takes one query: call search_many to search for each of several, or "
                "search_mean to search for all of them by their mean."
            )
        return self._search(query, SearchSettings(k, **options))

    def search_mean(
        self, queries: Sequence[Any], k: int = 10, **options: Unpack[SearchOptions]
    ) -> list[Hit]:
        """Search with several queries together, by the mean of their vectors.

        They are usually views of one thing, each as for `search`, or a `Part` with a box. All other
        arguments are as for `search`.
        """
        return self._search(list(queries), SearchSettings(k, **options))

    def search_like(
        self,
        query: Any = None,
        k: int = 10,
        *,
        like: str | Sequence[Any] = (),
        unlike: str | Sequence[Any] = (),
        **options: Unpack[SearchOptions],
    ) -> list[Hit]:
        """Search with feedback on earlier results: more like these, less like those.

        `query` may also be several as for `search_mean`; `like` and `unlike` are those of
        `SearchSettings`, all other arguments as for `search`. Returns photos with their
        similarities to the query as it was changed, best first, but for those that were judged.
        """
        return self._search(query, SearchSettings(k, like=like, unlike=unlike, **options))

    def search_many(
        self, queries: Iterable[Any], k: int = 10, **options: Unpack[SearchOptions]
    ) -> list[list[Hit]]:
        """Search for each of many queries, by default by similarity alone.

        Arguments are as for `search`. Without re-ranking, all are compared with the index at once.
        """
        options.setdefault("rerank", None)
        settings = SearchSettings(k, **options)
        searches = [Search(self, query, settings) for query in queries]
        plain = [one for one in searches if not one.names]
        if plain:
            depth = k + max(len(one.left_out) for one in plain)
            encoded, where = [one.encoded() for one in plain], self.conditions(settings.where)
            for one, hits in zip(plain, self.nearest(encoded, depth, where), strict=True):
                one.remember(hits)
        return [last.hits for *_, last in (one.stages() for one in searches)]

    def _search(self, query: Any, settings: SearchSettings) -> list[Hit]:
        *_, last = self.stages(query, settings)
        return last.hits

    def stages(
        self, query: Any = None, settings: SearchSettings | None = None
    ) -> Iterator[Ranking]:
        """Search, and yield the ranking by similarity first, then after each re-ranking method.

        The query is as for `search`, or a list of such queries that belong together.
        """
        return Search(self, query, settings or SearchSettings()).stages()

    def default_rerank(
        self, query: Any = None, *, photos: str | Path | None = None
    ) -> tuple[list[str], str]:
        """The names of the methods that `search` re-ranks with by default, and why there are none.

        Verification if the photos can be found, in the folder `photos` if they have moved, and the
        query is a photo; without a query, the index alone is asked about. The reason is empty for
        an ASMK index and for a query with a text, which need no re-ranking.
        """
        if not self.has_vectors:
            return [], ""
        try:
            parts = [] if query is None else self.query_parts(query)
            if has_words(parts):
                return [], ""
            found = [self.photo_of(part.photo) for part in parts]  # a vector has none
            settings = VerifySettings(fresh=FRESH, photos=photos)
            verifier = kept_verifier(self.engine, settings, self.kept)
            for photo in found:
                if isinstance(photo, Photo):
                    verifier.features(photo.path)
        except SolarError as error:
            return [], str(error)
        return ["verify"], ""

    def located(self, hits: Sequence[Hit]) -> list[Hit]:
        """The same photos with the places of their files on this machine."""
        roots = self.engine.roots_seen
        if not roots:
            return list(hits)
        return [replace(hit, absolute=roots.absolute(hit.path)) for hit in hits]

    def photo(self, path: str) -> Photo:
        """An indexed photo with its metadata; a SolarError if it is not indexed."""
        return self._named(path, self.engine.find)

    def query_parts(self, query: Any, box: Box | None = None) -> list[Part]:
        """The photos, paths and vectors that a query consists of."""
        parts = parts_of(query, box)
        if any(part.box is not None and not self._is_photo(part.photo) for part in parts):
            raise SolarError("A box needs a single query photo, given as a file.")
        return parts

    def own_paths(self, query: Any) -> set[str]:
        """The paths of indexed photos that a query itself is."""
        paths = set[str]()
        for part in parts_of(query):
            photo = part.photo
            if part.path is not None:
                paths.add(part.path)
            elif isinstance(photo, str) and not self._is_photo(photo):
                paths |= {photo, photo.removeprefix(BY_NAME)}
            elif isinstance(photo, str | os.PathLike):
                paths |= {name for name in [self.roots.name_of(expanded(Path(photo)))] if name}
        return set(self.engine.find(list(paths))) if paths else paths

    def photo_of(self, part: Any) -> Source | Photo:
        """A part of a query, for methods that look at photos."""
        if self._is_photo(part):
            return cast("Source", part)
        if isinstance(part, str):
            return self.photo(part)
        raise SolarError("Verification needs a query photo, not only a vector.")

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


@dataclass(frozen=True, eq=False)
class Ranking:
    """The photos found after a stage of a search."""

    search: Search
    results: SearchResults
    done: int = 0  # re-ranking methods so far

    @property
    def stage(self) -> str:
        """The name of the stage: `search` for similarity, or what the method does."""
        return self.search.stage_names[self.done]

    @property
    def awaited(self) -> list[str]:
        """The stages that follow."""
        return self.search.stage_names[self.done + 1 :]

    @property
    def every(self) -> list[Hit]:
        """The hits, best first, also those that are not probable enough."""
        settings, hits = self.search.settings, self.results.top
        # Scores may become similarities in a later stage.
        if settings.min_score is not None and (self.results.similar or not self.awaited):
            hits = [hit for hit in hits if hit.score >= settings.min_score]
        if not (settings.like or settings.unlike):
            return hits
        liked, unliked = self.search.judged  # they pass the filters, too
        return arranged(liked, hits, unliked, settings.k)

    @property
    def hits(self) -> list[Hit]:
        """The hits, best first, with the places of their files on this machine.

        If a later stage finds probabilities, improbable hits are left out then.
        """
        hits, results, index = self.every, self.results, self.search.index
        least, calibrated = self.search.settings.min_probability, index.calibration is not None
        if least is not None and (results.rating or not self.awaited or not calibrated):
            hits = results.probable(hits, least, self.search.names, calibrated=calibrated)
        return index.located(hits)


class Search:
    """A query and how to search for it; nothing is computed before a stage needs it.

    The query is as for `Searchable.search`, or a list of such queries that belong together.
    `encoded` is what to look for, if that is known: moved towards liked photos, away from others.
    """

    def __init__(
        self, index: Searchable, query: Any, settings: SearchSettings, encoded: Any = None
    ) -> None:
        self.index, self.settings = index, settings
        self._query = with_words(read_files(query), settings.text)
        self._where = index.conditions(settings.where)
        self.names = chosen(None if settings.rerank == AUTO else settings.rerank)
        self._lenient, verify = settings.lenient, settings.verify
        if verify is not None and "verify" not in self.names:
            self.names.append("verify")
        if settings.rerank == AUTO and not self.names:
            self.names, _ = index.default_rerank(self._query)
            self._lenient, verify = True, VerifySettings(fresh=FRESH)
        check_needs(self.names, vectors=index.has_vectors)
        self.stage_names = ["search", *(METHODS[name].stage or name for name in self.names)]
        self._like, self._unlike = (
            read_files([photos] if isinstance(photos, str) else list(photos))
            for photos in (settings.like, settings.unlike)
        )
        judged = bool(self._like or self._unlike)
        if judged and not index.has_vectors:
            raise NoVectorsError
        self._liked, self._unliked = (
            index.own_paths(photos) if photos else set() for photos in (self._like, self._unlike)
        )
        if both := self._liked & self._unliked:
            raise SolarError(f"{min(both)} is in both like and unlike: choose one.")
        own = set() if settings.include_self else index.own_paths(self._query)
        self.left_out = own | self._liked | self._unliked
        encode = self._moved if judged else partial(index.encode, self._query, box=settings.box)
        self.encoded = cache(encode if encoded is None else lambda: encoded)
        self._found: tuple[Any, int, list[Hit]] = (None, 0, [])  # the latest, for the next stage
        self._plain = SearchResults(
            index.engine,
            self.encoded,
            self.find,
            lambda: [
                Part(index.photo_of(part.photo), part.box)
                for part in shown(index.query_parts(self._query, settings.box))
            ],
            settings.k,
            settings={} if verify is None else {"verify": verify},
            kept=index.kept,
            calibration=None if judged or has_words(parts_of(self._query)) else index.calibration,
            background=lambda vector, best: self._surroundings.background(vector, best),
        )

    def stages(self) -> Iterator[Ranking]:
        """The ranking by similarity, and those after each method."""
        ranking = self.after()
        yield ranking
        for _ in self.names:
            ranking = self.after(ranking)
            yield ranking

    def after(self, before: Ranking | None = None) -> Ranking:
        """The first ranking, or the one that follows another."""
        if before is None:
            return Ranking(self, self._plain)
        results = before.results
        with suppress(SolarError) if self._lenient else nullcontext():
            results = METHODS[self.names[before.done]].rerank(results)
        return Ranking(self, results, before.done + 1)

    def find(self, asked: Any, count: int) -> list[Hit]:
        """The photos most like what is asked for, deeper and deeper until enough pass."""
        known, deep, hits = self._found
        if known is not asked or len(hits) == deep < count:
            depth = count + len(self.left_out)
            while True:
                [found] = self.index.nearest([asked], depth, self._where)
                hits = self._passing(found)
                if len(hits) >= count or len(found) < depth or depth >= _MOST:
                    break
                depth = min(4 * depth, _MOST)
            hits = hits[:count]
            self._found = asked, count, hits
        return hits[:count]

    def remember(self, found: Sequence[Hit]) -> None:
        """Take the nearest photos, if they were found together with those of other queries."""
        k = self.settings.k
        self._found = self.encoded(), k, self._passing(found)[:k]

    @cached_property
    def _surroundings(self) -> Surroundings:
        """The photos that may be found."""
        only, most = self.settings.only, len(self.left_out)

        def passing(photo: Photo) -> bool:
            known = photo.path not in self.left_out and (not only or only(photo.path))
            return known and all(one.holds(photo) for one in self._where)

        def nearest(asked: Sequence[Any], count: int) -> list[list[Hit]]:
            found = self.index.nearest(asked, count + most, self._where)
            return [self._passing(hits)[:count] for hits in found]

        return Surroundings(self.index.engine, self.index.kept, passing, nearest)

    @cached_property
    def judged(self) -> list[list[Hit]]:
        """The liked photos and the unliked ones that pass the filters."""
        found = self.index.lookup(sorted(self._liked | self._unliked))
        least, only = self.settings.min_score, self.settings.only
        hits = [
            Hit(path, min(float(row @ self.encoded()), 1.0))
            for path, (photo, row) in found.items()
            if all(one.holds(photo) for one in self._where) and (not only or only(path))
        ]
        hits = [hit for hit in hits if least is None or hit.score >= least]
        return [[hit for hit in hits if hit.path in some] for some in (self._liked, self._unliked)]

    def _passing(self, hits: Sequence[Hit]) -> list[Hit]:
        only, left_out = self.settings.only, self.left_out
        return [hit for hit in hits if hit.path not in left_out and (not only or only(hit.path))]

    def _moved(self) -> Any:
        """The query, moved towards liked photos and away from others."""
        found = self.index.encode(self._query, box=self.settings.box)
        liked, unliked = (
            np.array([self.index.encode(photo) for photo in photos])
            for photos in (self._like, self._unlike)
        )
        return updated(found, liked, unliked)
