"""The engine for more photos than one machine holds: a collection of Milvus.

One row per photo, with its path as the primary key. The collection's properties say how the vectors
were made. Addresses and options are in `solar.storage.milvus.options`.

Milvus has no transactions. A new collection gets its name when it is complete. Adding becomes
visible piece by piece; after a failure, adding the same again is safe.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.files import is_text
from solar.images import Roots, Stamp
from solar.storage.conditions import Where
from solar.storage.milvus import schema as stored
from solar.storage.milvus.connection import Connection
from solar.storage.milvus.filter import among, expression, with_field
from solar.storage.milvus.options import BY_TAG, parse_address, read_options
from solar.storage.milvus.schema import CollectionFacts
from solar.storage.protocol import Piece, validated
from solar.storage.types import Amendment, DescriptorSpec, Hit, Photo, Skipped

_UNFINISHED = "_unfinished"
_MOST = 16384  # rows in one answer, a limit of Milvus
_MOST_BYTES = 32 << 20  # in one call or answer; a server's own limit is 64 MiB
_PATHS = 500  # named in one expression
_COUNTED = 5.0  # seconds between two counts

_Item = TypeVar("_Item")


def begin(
    address: str, spec: DescriptorSpec, roots: Roots | None = None, **options: Any
) -> MilvusEngine:
    """Start a collection that a run fills, or open the one that a killed run has begun.

    One without photos is begun again. A SolarError if there is a finished one. `options` are those
    of `solar.storage.milvus.options.Options`, and override the address.
    """
    with _connected(address, options) as (connection, given):
        place, asked = connection.place, connection.options
        name = f"{place.collection}{_UNFINISHED}"
        if connection.call("has_collection", name):
            found = _loaded(connection, name, given)
            if len(found):
                return found
            connection.call("drop_collection", name)
            connection.options = asked
        if connection.call("has_collection", place.collection):
            raise SolarError(f"{place} exists already: add to it, or choose another name.")
        engine = MilvusEngine(connection, name, CollectionFacts(spec, asked, roots or Roots()))
        try:
            engine.make()
        except BaseException:
            engine.discard()
            raise
        return engine


def finished(address: str) -> bool:
    """Whether there is a collection at an address."""
    with _connected(address, {}) as (connection, _), contextlib.closing(connection):
        return bool(connection.call("has_collection", connection.place.collection))


def open_index(address: str, **options: Any) -> MilvusEngine:
    """Open a collection, and load it into memory."""
    with _connected(address, options) as (connection, given):
        return _loaded(connection, connection.place.collection, given)


@contextlib.contextmanager
def _connected(
    address: str, options: Mapping[str, Any]
) -> Iterator[tuple[Connection, dict[str, Any]]]:
    """A connection, closed where the block fails, and its options as they were given."""
    place = parse_address(address)
    given = {**place.options, **options}
    connection = Connection(place, read_options(given))
    try:
        yield connection, given
    except BaseException:
        connection.close()
        raise


def _loaded(connection: Connection, name: str, given: Mapping[str, Any]) -> MilvusEngine:
    facts = stored.read_facts(connection, name)
    connection.options = facts.options.reading(given)
    engine = MilvusEngine(connection, name, facts)
    engine.load()
    return engine


def index_name(address: str) -> str:
    """The name of the index at an address, without a password."""
    return parse_address(address).collection


class MilvusEngine:
    """A collection of Milvus; see `solar.storage.protocol.Engine`.

    It differs: changes become visible piece by piece, many may write at a time, and
    `batches` may or may not show concurrent changes.
    """

    folder = None

    def __init__(self, connection: Connection, name: str, facts: CollectionFacts) -> None:
        self.spec, self.options = facts.spec, connection.options
        self._facts = facts
        self._connection, self._name = connection, name
        self._place = str(connection.place)
        self._rows_per_call = max(1, min(4096, _MOST_BYTES // (4 * self.spec.dim + 1024)))
        self._counted = -_COUNTED, 0  # when, and how many photos

    def __str__(self) -> str:
        return self._place

    def __len__(self) -> int:
        [row] = self._query("", ["count(*)"], consistency="Strong")
        return int(row["count(*)"])

    @property
    def version(self) -> int:
        """How many photos there were a few seconds ago: a collection does not count its changes."""
        since, count = self._counted
        if time.monotonic() - since >= _COUNTED:
            self._counted = time.monotonic(), count  # also if the server does not answer
            self._counted = time.monotonic(), len(self)
        return self._counted[1]

    def search(self, queries: Vectors, k: int, where: Where = ()) -> list[list[Hit]]:
        """The k best photos that satisfy `where`, for each of the queries (n, dim)."""
        if k > _MOST:
            raise SolarError(f"Milvus finds at most {_MOST} photos per search, not {k}.")
        found: list[list[Hit]] = []
        most = max(1, _MOST_BYTES // (4 * self.spec.dim))
        for start in range(0, len(queries), most):
            answer = self._call(
                "search",
                data=queries[start : start + most],
                anns_field="vector",
                filter=expression(where, self._partition_tag),
                limit=k,
                search_params={"metric_type": "IP", "params": self.options.search_params(k)},
                consistency_level=self.options.consistency,
            )
            found += [
                [Hit(str(hit.id), min(float(hit.distance), 1.0)) for hit in hits] for hits in answer
            ]
        return found

    def lookup(self, paths: Sequence[str]) -> dict[str, tuple[Photo, Vectors]]:
        """Photos and their vectors (dim,), by path; unknown paths are left out."""
        rows = self._find(paths, [*stored.KNOWN, "vector"], self.options.consistency)
        return {row["path"]: (stored.photo_of(row), stored.vector_of(row)) for row in rows}

    def find(self, paths: Sequence[str]) -> dict[str, Photo]:
        """Photos by path; unknown paths are left out."""
        rows = self._find(paths, stored.KNOWN, self.options.consistency)
        return {row["path"]: stored.photo_of(row) for row in rows}

    def field_names(self) -> list[str]:
        """The names of own fields of the first 16,384 photos, sorted."""
        rows = self._query("", ["fields"], self.options.consistency, limit=_MOST)
        return sorted({name for row in rows for name in stored.fields_of(row)})

    def has_field(self, name: str) -> bool:
        """Whether a photo has this own field."""
        consistency = self.options.consistency
        return any(self._query(one, ["path"], consistency, limit=1) for one in with_field(name))

    def batches(self, rows: int = 4096) -> Iterator[tuple[list[Photo], Vectors]]:
        """Everything, in the order of a hash of the paths, in pieces of at most `rows`."""
        for batch in self._walk(rows):
            vectors = np.stack([stored.vector_of(row) for row in batch])
            yield [stored.photo_of(row) for row in batch], vectors

    def sample(self, count: int) -> tuple[list[Photo], Vectors]:
        """The first of `batches`: the order of a hash is like a random one."""
        return next(self.batches(count), ([], np.empty((0, self.spec.dim), np.float32)))

    def photos(self, rows: int = 4096) -> Iterator[list[Photo]]:
        """All photos, in the order of `batches`."""
        for batch in self._walk(rows, stored.KNOWN):
            yield [stored.photo_of(row) for row in batch]

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Add photos or replace those of the same path, piece by piece; repeating it is safe."""
        given = 0
        try:
            for photos, vectors in batches:
                for photo in photos:
                    stored.check_photo(photo)
                kept, sound = validated(photos, vectors, self.spec.dim, self._place)
                rows = stored.rows_of(kept, sound, self._partition_tag)
                for some in _chunks(rows, self._rows_per_call):
                    self._write(list(some))
                given += len(photos)
        except SolarError as error:
            if not given:
                raise
            raise SolarError(
                f"{str(error).removesuffix('.')}; {given} photos were already written, and adding "
                "all of them again is safe."
            ) from error
        return given

    @property
    def roots(self) -> Roots:
        """Where the photos are."""
        return self._facts.roots

    roots_seen = roots

    def stamps(self) -> dict[str, Stamp | None]:
        """The stamp of every photo, by path."""
        return {photo.path: photo.stamp for batch in self.photos() for photo in batch}

    def skipped(self) -> dict[str, Skipped]:
        """Nothing: a collection does not store what was left out."""
        return {}

    def amend(self, change: Amendment) -> None:
        """Make changes for which nothing has to be described, one after the other."""
        if change.facts:
            raise SolarError("A Milvus collection does not store positions: leave out `exif=True`.")
        self._delete(change.removed)
        back = {new: old for old, new in change.renamed.items()}
        changed = {path: back.get(path, path) for path in {*back, *change.stamps}}
        found = self.lookup(list(changed.values()))
        photos, vectors = [], []
        for path, old in changed.items():
            photo, vector = found[old]
            stamp = change.stamps.get(path, photo.stamp)
            photos.append(replace(photo, path=path, stamp=stamp))
            vectors.append(vector)
        if photos:
            self.add([(photos, np.stack(vectors))])
        self._delete([old for old in change.renamed if old not in back])
        if change.roots is not None and change.roots != self._facts.roots:
            self._facts = replace(self._facts, roots=change.roots)
            properties = {stored.FACTS: self._facts.stored()}
            self._call("alter_collection_properties", properties=properties)

    def info(self) -> dict[str, Any]:
        """Facts to print; `bytes` are those of the vectors alone, in one replica."""
        photos, index = len(self), self._call("describe_index", "vector")
        shown = ("build", "search", "partition", "shards", "replicas", "consistency")
        return {
            "engine": "milvus",
            "server": str(self._connection.call("get_server_version")),
            "photos": photos,
            "bytes": photos * self.spec.dim * 4,
            "index": self.options.index,
            "rows_not_yet_indexed": int(index.get("pending_index_rows", 0)),
            **{name: getattr(self.options, name) for name in shown},
        }

    def check(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence per problem."""
        try:
            return self._audit()
        except SolarError as error:
            return [str(error)]

    def compact(self) -> None:
        """Let the server reclaim the space of removed photos, asynchronously."""
        self._call("compact")

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    # Making a collection

    def make(self) -> None:
        """Make the collection."""
        options, connection = self.options, self._connection
        facts = self._facts.stored()
        params = options.build_params(self.spec.dim)
        index = connection.pymilvus.MilvusClient.prepare_index_params()
        index.add_index("vector", index_type=options.index, metric_type="IP", params=params)
        partitions = {} if options.partition == "none" else {"num_partitions": options.partitions}
        self._call(
            "create_collection",
            # Servers keep both; Milvus Lite forgets the description.
            schema=stored.schema(connection, self.spec.dim, options.partition, facts),
            properties={stored.FACTS: facts},
            num_shards=options.shards,
            consistency_level=options.consistency,
            **partitions,
        )
        self._call("create_index", index)
        self.load()

    incoming = None

    def fill(self, piece: Piece) -> None:
        """Add what a run has described at once; what it could not describe is not stored."""
        assert not isinstance(piece.vectors, str)
        if piece.photos:
            self.add([(piece.photos, np.asarray(piece.vectors, np.float32))])

    def filling(self) -> contextlib.AbstractContextManager[None]:
        """Nothing: many may write at a time."""
        return contextlib.nullcontext()

    @property
    def unfinished(self) -> bool:
        """Whether the collection has still to get its name."""
        return self._name != self._connection.place.collection

    def finish(self) -> None:
        """Give the collection its name."""
        self._call("flush", timeout=self.options.wait)
        name = self._connection.place.collection
        self._call("rename_collection", name)
        self._name = name
        self.load()  # again: in Milvus Lite, renaming unloads

    def discard(self) -> None:
        """Delete the collection, if the server answers."""
        with contextlib.suppress(SolarError):
            self._call("drop_collection")
        self.close()

    def mapped(self) -> tuple[list[Photo], Vectors]:
        """All photos and their vectors (n, dim), in memory."""
        pieces = list(self.batches())
        nothing = np.empty((0, self.spec.dim), np.float32)
        vectors = np.concatenate([nothing, *(rows for _, rows in pieces)])
        return [photo for photos, _ in pieces for photo in photos], vectors

    def load(self) -> None:
        """Load the collection into memory, with its index, unless it is there already."""
        state = self._call("get_load_state")["state"]
        if getattr(state, "name", str(state)) == "Loaded":
            return
        end = time.monotonic() + self.options.wait
        while self._call("describe_index", "vector").get("pending_index_rows", 0):
            if time.monotonic() > end:
                break  # load it anyway; searches are slow at first
            time.sleep(0.2)
        self._call(
            "load_collection", timeout=self.options.wait, replica_number=self.options.replicas
        )

    # Rows

    def _write(self, rows: list[dict[str, Any]]) -> None:
        """Write rows over those with the same paths."""
        if self.options.partition == "none":
            self._call("upsert", rows)
            return
        # Up to 2.3.7 at least, servers upsert into the wrong partition (milvus-io/milvus#30607),
        # and a search that looks at one partition misses the photo.
        old = among("path", (row["path"] for row in rows))
        name, timeout = self._name, self.options.timeout

        def replace(client: Any) -> None:
            client.delete(name, filter=old, timeout=timeout)
            client.insert(name, rows, timeout=timeout)

        self._connection.repeat("insert", replace)

    def _delete(self, paths: Sequence[str]) -> None:
        for some in _chunks(paths, _PATHS):
            self._call("delete", filter=among("path", some))

    @property
    def _partition_tag(self) -> str | None:
        by = self.options.partition
        return by.removeprefix(BY_TAG) if by.startswith(BY_TAG) else None

    # Reading

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return self._connection.call(method, self._name, *arguments, **named)

    def _query(
        self, filter_: str, fields: list[str], consistency: str, **named: Any
    ) -> list[dict[str, Any]]:
        named |= {"output_fields": fields, "consistency_level": consistency}
        return list(self._call("query", filter=filter_, **named))

    def _find(
        self, paths: Sequence[str], fields: list[str], consistency: str
    ) -> Iterator[dict[str, Any]]:
        """The rows of those paths that are indexed."""
        known = [path for path in dict.fromkeys(paths) if is_text(path)]
        for some in _chunks(known, _PATHS):
            chosen = among("path", some)
            if self.options.partition == "hash":  # no other partition has to be looked at
                chosen += f" and {among('place', map(stored.place_of, some))}"
            yield from self._query(chosen, fields, consistency)

    def _walk(self, most: int, fields: list[str] | None = None) -> Iterator[list[dict[str, Any]]]:
        """All rows, ascending by place, in pieces of at most `most`.

        Places are spread evenly: a range of them is read at a time, and halved if it holds too
        many rows. Milvus itself guarantees no order that works for paths with quotes.
        """
        most = min(most, _MOST - 1, self._rows_per_call)
        ranges = max(1, math.ceil(2 * len(self) / most))
        edges = [stored.PLACES * number // ranges for number in range(ranges + 1)]
        todo = list(pairwise(edges))[::-1]
        while todo:
            first, last = todo.pop()
            inside = f"place >= {first} and place < {last}"
            wanted = fields or [*stored.KNOWN, "vector"]
            rows = self._query(inside, wanted, "Strong", limit=most + 1)
            if len(rows) > most:
                middle = (first + last) // 2
                todo += [(middle, last), (first, middle)]
            elif rows:
                yield sorted(rows, key=lambda row: (row["place"], row["path"]))

    def _audit(self) -> list[str]:
        problems, seen = list[str](), 0
        for batch in self._walk(1024):
            seen += len(batch)
            for row in batch:
                if stored.checksum(stored.vector_of(row)) != row["checksum"]:
                    problems.append(f"The vector of {row['path']} in {self._place} is damaged.")
                if row["place"] != stored.place_of(row["path"]):
                    problems.append(f"The row of {row['path']} in {self._place} is damaged.")
        count = len(self)
        if count != seen:
            problems.append(
                f"{self._place} counts {count} photos and shows {seen}: check it again when "
                "no process writes."
            )
        return problems


def _chunks(items: Sequence[_Item], most: int) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]
