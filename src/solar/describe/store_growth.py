"""A store whose photos have changed: what is still true is kept, the rest is to be described.

Shards that hold photos which are gone or have changed are written anew, without those, under new
numbers. Photos that are new and whose content is known (a file that was moved, a copy) get their
vectors at once; the others become new shards. All of that counts when the manifest is replaced,
which is the last step: a run that is killed before has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from solar.describe.shard_files import ShardEntry, Vectors
from solar.describe.store_files import MANIFEST, sha256, source_bytes, write_whole
from solar.errors import SolarError
from solar.images import Photos, Stamp

if TYPE_CHECKING:
    from solar.describe.store import Store


@dataclass(frozen=True)
class _Known:
    """A photo that the store has described, and where its vector is."""

    entry: ShardEntry
    shard: int
    row: int


def up_to_date(store: Store, photos: Photos, *, retry: bool = False) -> Store:
    """The store of these photos, with shards to be described where it lacks some.

    With `retry` those that could not be described before are among them. A SolarError if it is
    damaged, or cannot be written.
    """
    plan = _Plan(store, photos, retry)
    same = photos.roots.stored() in ([], store._manifest.roots)
    if plan.changes_nothing and same:
        return store
    if len(store) and not any(plan.kept.values()) and not plan.reused and not same:
        raise SolarError(
            f"{store.path} holds descriptors of other photos, none of which is among these: choose "
            "another folder."
        )
    return plan.carry_out()


class _Plan:
    """What becomes of every shard."""

    def __init__(self, store: Store, photos: Photos, retry: bool) -> None:
        self.store, self.photos, self._retry = store, photos, retry
        self._numbers = {name: number for number, name in enumerate(photos.names)}
        pending = set(store.pending())
        self.kept: dict[int, list[_Known]] = {}
        self._rewritten: set[int] = set()
        known: dict[str, _Known] = {}
        done: set[str] = set()
        for shard in (number for number, _ in store._manifest.shards if number not in pending):
            everything = list(_read(store, shard))
            known |= {digest: one for one in everything if (digest := _content(one))}
            mine = [now for one in everything if (now := self._now(one, done)) is not None]
            done |= {one.entry.name for one in mine}
            self.kept[shard] = mine
            if mine != everything:
                self._rewritten.add(shard)
        rest = [name for name in photos.names if name not in done]
        self.reused = dict(self._reusable(rest, known))
        self.rest = [name for name in rest if name not in self.reused]
        waiting = [name for shard in sorted(pending) for name in store.source(shard)]
        self.changes_nothing = not self._rewritten and not self.reused and self.rest == waiting

    def carry_out(self) -> Store:
        """Write what is new, then the manifest that makes it count."""
        from solar.describe.store import Store

        store, layout, names = self.store, list[list[int]](), list[str]()
        fresh = 1 + max((number for number, _ in store._manifest.shards), default=-1)
        parts: list[tuple[int, list[_Known]]] = []
        for shard, mine in self.kept.items():
            if shard not in self._rewritten:
                parts.append((shard, mine))
            elif mine:
                parts.append((fresh, mine))
                fresh += 1
        for start in range(0, len(self.reused), store.shard_size):
            parts.append((fresh, list(self.reused.values())[start : start + store.shard_size]))
            fresh += 1
        for number, mine in parts:
            layout.append([number, len(mine)])
            names += [one.entry.name for one in mine]
            if number not in self.kept:
                record = [one.entry for one in mine]
                store._shard(number).write(self._vectors(mine), record)
        for start in range(0, len(self.rest), store.shard_size):
            layout.append([fresh, len(self.rest[start : start + store.shard_size])])
            fresh += 1
        names += self.rest
        source = source_bytes(names)
        manifest = replace(
            store._manifest,
            photos=len(names),
            source_sha256=sha256(source),
            layout=layout,
            roots=self.photos.roots.stored() or store._manifest.roots,
            format=type(store._manifest).format,
        )
        write_whole(store.path / manifest.source, source)
        write_whole(store.path / MANIFEST, manifest.to_bytes())
        return Store(store.path, manifest, names)

    def _now(self, one: _Known, done: set[str]) -> _Known | None:
        """A photo as the store is to keep it; None if it is gone or has changed."""
        entry, number = one.entry, self._numbers.get(one.entry.name)
        if number is None or entry.name in done or (self._retry and entry.size is None):
            return None
        if not self.photos.seen:  # nobody looked at the files
            return one
        seen = self.photos.seen[number]
        if entry.stamp is None:  # of an older store, or the file was not there, and may be now
            return one if entry.size is not None or seen.bytes < 0 else None
        if entry.stamp.fits(seen):
            return one
        if entry.stamp.bytes != seen.bytes or entry.size is None:
            return None
        now = _stamp(self.photos, number)
        if now is None or now.sha256 != entry.stamp.sha256:
            return None
        return replace(one, entry=replace(entry, stamp=now))

    def _reusable(
        self, names: Sequence[str], known: dict[str, _Known]
    ) -> Iterator[tuple[str, _Known]]:
        """Those of the photos whose content the store has described under another name."""
        boxes = self.store.settings.get("boxes") or {}
        sizes = {one.entry.stamp.bytes for one in known.values() if one.entry.stamp is not None}
        if boxes or not self.photos.seen:
            return
        for name in names:
            number = self._numbers[name]
            # Few files have the same number of bytes: the others need not be read.
            if self.photos.seen[number].bytes not in sizes:
                continue
            now = _stamp(self.photos, number)
            if now is not None and now.sha256 in known:
                one = known[now.sha256]
                yield name, replace(one, entry=replace(one.entry, name=name, stamp=now))

    def _vectors(self, photos: Sequence[_Known]) -> Vectors:
        described = [one for one in photos if one.entry.size is not None]
        rows: Vectors = np.empty((len(described), self.store.dim), self.store._on_disk)
        for at, one in enumerate(described):
            rows[at] = self.store._map(one.shard)[one.row]
        return rows


def _read(store: Store, shard: int) -> Iterator[_Known]:
    row = 0
    for entry in store.record(shard):
        yield _Known(entry, shard, row)
        row += entry.size is not None


def _content(one: _Known) -> str:
    """The digest of a photo that has a vector; empty if it has none, or nobody knows."""
    entry = one.entry
    return entry.stamp.sha256 if entry.stamp is not None and entry.size is not None else ""


def _stamp(photos: Photos, number: int) -> Stamp | None:
    try:
        return photos.stamp(number)
    except SolarError:  # told of when it is described
        return None
