"""Update a store whose photos have changed.

Shards with photos that are gone or changed are rewritten without those, under new numbers. New
photos whose content is known (a moved file, a copy) get their vectors at once; the others become
new shards. The manifest is replaced last: a run that is killed before has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from solar.arrays import AnyFloats
from solar.describe.store_files import (
    MANIFEST,
    Header,
    Manifest,
    OtherPhotosError,
    ShardEntry,
    ShardFiles,
    sha256,
    source_bytes,
    write_whole,
)
from solar.images import Photos


@dataclass(frozen=True)
class _Known:
    """A photo that the store has described, and where its vector is."""

    entry: ShardEntry
    shard: int
    row: int


@dataclass(frozen=True)
class StoredShards:
    """What a store consists of."""

    path: Path
    manifest: Manifest
    headers: Mapping[int, Header]  # of the shards that are finished
    names: Sequence[str]  # the list of photos

    def read(self, shard: int) -> Iterator[_Known]:
        """The photos of a finished shard."""
        row = 0
        for entry in ShardFiles(self.path, shard).read_record(self.headers[shard]):
            yield _Known(entry, shard, row)
            row += entry.size is not None

    def vectors(self, photos: Sequence[_Known]) -> AnyFloats:
        """The vectors of those of the photos that have one, (n, dim)."""
        described = [one for one in photos if one.entry.size is not None]
        dim, dtype = self.manifest.dim, np.dtype(self.manifest.dtype).newbyteorder("<")
        rows: AnyFloats = np.empty((len(described), dim), dtype)
        files = {one.shard: ShardFiles(self.path, one.shard) for one in described}
        arrays = {n: file.map(self.headers[n], dim, dtype) for n, file in files.items()}
        for at, one in enumerate(described):
            rows[at] = arrays[one.shard][one.row]
        return rows

    def waiting(self) -> list[str]:
        """The photos of the shards that are not finished, in order."""
        names, start = list[str](), 0
        for number, count in self.manifest.shards:
            names += self.names[start : start + count] if number not in self.headers else []
            start += count
        return names


def up_to_date(stored: StoredShards, photos: Photos, *, retry: bool = False) -> Manifest:
    """Bring a store up to date with photos, and return its new manifest.

    Photos without a vector are in new shards, still to be described; with `retry` also those that
    failed before. A SolarError if the store is damaged, or cannot be written.
    """
    plan = _Plan(stored, photos, retry)
    same = photos.roots.stored() in ([], stored.manifest.roots)
    if plan.changes_nothing and same:
        return stored.manifest
    described = any(header.rows for header in stored.headers.values())
    if described and not any(plan.kept.values()) and not plan.reused and not same:
        raise OtherPhotosError(
            f"{stored.path} holds descriptors of other photos, none of which is among these: "
            "choose another folder."
        )
    return plan.carry_out()


class _Plan:
    """What becomes of every shard."""

    def __init__(self, stored: StoredShards, photos: Photos, retry: bool) -> None:
        self.stored, self.photos, self._retry = stored, photos, retry
        self.kept: dict[int, list[_Known]] = {}
        self._rewritten: set[int] = set()
        known: dict[str, _Known] = {}
        done: set[str] = set()
        for shard in (number for number, _ in stored.manifest.shards if number in stored.headers):
            everything = list(stored.read(shard))
            known |= {digest: one for one in everything if (digest := _content(one))}
            mine = [now for one in everything if (now := self._now(one, done)) is not None]
            done |= {one.entry.name for one in mine}
            self.kept[shard] = mine
            if mine != everything:
                self._rewritten.add(shard)
        rest = [name for name in photos.names if name not in done]
        self.reused = dict(self._reusable(rest, known))
        self.rest = [name for name in rest if name not in self.reused]
        described_anew = self.rest != stored.waiting()
        self.changes_nothing = not (self._rewritten or self.reused or described_anew)

    def carry_out(self) -> Manifest:
        """Write what is new, then the manifest that makes it count."""
        path, old = self.stored.path, self.stored.manifest
        layout, names = list[list[int]](), list[str]()
        fresh = 1 + max((number for number, _ in old.shards), default=-1)
        parts: list[tuple[int, list[_Known]]] = []
        for shard, mine in self.kept.items():
            if shard not in self._rewritten:
                parts.append((shard, mine))
            elif mine:
                parts.append((fresh, mine))
                fresh += 1
        for start in range(0, len(self.reused), old.shard_size):
            parts.append((fresh, list(self.reused.values())[start : start + old.shard_size]))
            fresh += 1
        for number, mine in parts:
            layout.append([number, len(mine)])
            names += [one.entry.name for one in mine]
            if number not in self.kept:
                record = [one.entry for one in mine]
                ShardFiles(path, number).write(self.stored.vectors(mine), record)
        for start in range(0, len(self.rest), old.shard_size):
            layout.append([fresh, len(self.rest[start : start + old.shard_size])])
            fresh += 1
        names += self.rest
        source = source_bytes(names)
        manifest = replace(
            old,
            photos=len(names),
            source_sha256=sha256(source),
            layout=layout,
            roots=self.photos.roots.stored() or old.roots,
        )
        write_whole(path / manifest.source, source)
        write_whole(path / MANIFEST, manifest.to_bytes())
        return manifest

    def _now(self, one: _Known, done: set[str]) -> _Known | None:
        """A photo as the store is to keep it; None if it is gone or has changed."""
        entry, number = one.entry, self.photos.numbers.get(one.entry.name)
        if number is None or entry.name in done or (self._retry and entry.size is None):
            return None
        if not self.photos.seen:  # the files were not looked at
            return one
        seen = self.photos.seen[number]
        if entry.stamp is None:  # the file was not there, and may be now
            return one if entry.size is not None or seen.bytes < 0 else None
        if entry.stamp.fits(seen):
            return one
        if entry.stamp.bytes != seen.bytes or entry.size is None:
            return None
        now = self.photos.stamp_if_readable(number)
        if now is None or now.sha256 != entry.stamp.sha256:
            return None
        return replace(one, entry=replace(entry, stamp=now))

    def _reusable(
        self, names: Sequence[str], known: dict[str, _Known]
    ) -> Iterator[tuple[str, _Known]]:
        """Those of the photos whose content the store has described under another name."""
        boxes = self.stored.manifest.settings.get("boxes") or {}
        sizes = {one.entry.stamp.bytes for one in known.values() if one.entry.stamp is not None}
        if boxes or not self.photos.seen:
            return
        for name in names:
            number = self.photos.numbers[name]
            # Few files have the same number of bytes: the others need not be read.
            if self.photos.seen[number].bytes not in sizes:
                continue
            now = self.photos.stamp_if_readable(number)
            if now is not None and now.sha256 in known:
                one = known[now.sha256]
                yield name, replace(one, entry=replace(one.entry, name=name, stamp=now))


def _content(one: _Known) -> str:
    """The digest of a photo that has a vector, or an empty text."""
    entry = one.entry
    return entry.stamp.sha256 if entry.stamp is not None and entry.size is not None else ""
