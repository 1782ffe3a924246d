"""The one way into an index: what is new, changed, moved or gone, and then making it so.

A file is looked at only as far as needed. One whose size and time are those of when it was
described is the same. Of the others the content's digest decides: a file that was touched keeps
its vector, one that was moved or renamed takes it along, a copy shares it, and only what has never
been seen is described.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.images import Photos, Stamp
from solar.images.known_roots import confirm
from solar.index.photo_index import PhotoIndex
from solar.storage.types import REMOVED, Amendment, Photo, Skipped

if TYPE_CHECKING:
    from solar.describe.progress import Progress


@dataclass(frozen=True)
class Changes:
    """What has changed since the photos were indexed; names are those of the index."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)  # old to new
    copied: Mapping[str, str] = field(default_factory=dict)  # of new and changed: to what is alike
    deleted: tuple[str, ...] = ()
    touched: Mapping[str, Stamp] = field(default_factory=dict)  # the same with another time
    skipped: Mapping[str, str] = field(default_factory=dict)  # by now known, and why
    stamps: Mapping[str, Stamp] = field(default_factory=dict, repr=False)  # of moved and copied
    unchanged: int = 0

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.moved or self.deleted)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "new": list(self.new),
            "changed": list(self.changed),
            "moved": dict(self.moved),
            "deleted": list(self.deleted),
            "skipped": dict(self.skipped),
            "unchanged": self.unchanged + len(self.touched),
        }

    def __str__(self) -> str:
        facts = self.to_dict()
        unchanged = facts.pop("unchanged")
        counts = [f"{len(names):,} {what}" for what, names in facts.items()]
        return ", ".join([*counts[:-1], f"{unchanged:,} unchanged", counts[-1]])


def plan(
    index: PhotoIndex,
    photos: Photos,
    known: Mapping[str, Stamp | None],
    *,
    complete: bool = True,
    retry: bool = False,
) -> Changes:
    """The changes that bring an index, of which `known` are the stamps, up to date with photos.

    With `complete`, a photo that is not among them is gone; with `retry`, photos that could not be
    described before are tried again.
    """
    numbers = photos.numbers
    names, stamps = frozenset(numbers), dict[str, Stamp]()
    unread = tuple(name for name in photos.skipped if name.endswith("/"))  # may come back
    gone = [n for n in known if n not in names and not n.startswith(unread)] if complete else []
    before = index.engine.skipped()
    new, changed, unchanged = list[str](), list[str](), 0
    touched, skipped = dict[str, Stamp](), dict(photos.skipped)
    for name, number in numbers.items():
        seen, stamp = photos.states[number], known.get(name)
        if name in known:
            if stamp is None:  # indexed as a vector, without its file: taken as it is now
                touched[name] = Stamp(seen.bytes, seen.modified, "")
            elif stamp.fits(seen):
                unchanged += 1
            elif (
                now := photos.stamp_if_readable(number)
            ) is not None and now.sha256 == stamp.sha256:
                touched[name] = now
            else:
                changed.append(name)
                stamps |= {} if now is None else {name: now}
        elif name in before and (
            before[name].reason == REMOVED
            or (not retry and before[name][1:] == (seen.bytes, seen.modified))
        ):
            skipped[name] = before[name].reason
        else:
            new.append(name)
    moved, copied = dict[str, str](), dict[str, str]()
    sizes = {stamp.bytes for stamp in known.values() if stamp is not None and stamp.sha256}
    alike_in_size = [name for name in new if photos.states[numbers[name]].bytes in sizes]
    stamps |= {
        n: now for n in alike_in_size if (now := photos.stamp_if_readable(numbers[n])) is not None
    }
    if stamps:
        by_content: dict[str, list[str]] = {}
        for name in dict.fromkeys([*gone, *known]):
            if stamp := known[name]:
                by_content.setdefault(stamp.sha256, []).append(name)
        missing = set(gone)
        for name, now in stamps.items():
            alike = by_content.get(now.sha256)
            if not alike:
                continue
            if alike[0] in missing and name not in known:
                moved[alike[0]] = name
                missing.remove(alike[0])
                del alike[: len(alike) > 1]  # the last one stays, for copies
            elif index.has_vectors:
                copied[name] = alike[0]
    found_again = set(moved.values())
    settled = found_again | copied.keys()
    return Changes(
        tuple(name for name in new if name not in found_again),
        tuple(changed),
        moved,
        copied,
        tuple(name for name in gone if name not in moved),
        touched,
        skipped,
        {name: now for name, now in stamps.items() if name in settled},
        unchanged,
    )


def apply(
    index: PhotoIndex,
    photos: Photos,
    changes: Changes,
    *,
    complete: bool = False,
    extra: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
    **describing: Any,
) -> Changes:
    """Make the changes that `plan` found between an index and photos, and return those made.

    Those that need no network come first. `complete` is as for `plan`; other arguments are as for
    `PhotoIndex.add_photos`. What was described is committed piece by piece, so that a killed run
    costs little: the next plan has only what is missing.
    """
    numbers = photos.numbers
    lacking = (name for name in (*changes.new, *changes.changed) if name not in changes.copied)
    wanted = photos.select(numbers[name] for name in lacking)
    if wanted:
        index.refuse_unknown_model()
    engine, before = index.engine, index.engine.find(changes.changed)
    told = {n: {"tags": old.tags, "fields": old.fields} for n, old in before.items()}
    extra = told | dict(extra or {})
    shared = _shared(index, changes, extra)
    stamps = {new: changes.stamps[new] for new in changes.moved.values()} | dict(changes.touched)
    known = index.roots
    roots = photos.roots if photos.roots and photos.roots != known else None
    engine.amend(Amendment(changes.deleted, changes.moved, stamps, None, roots))
    confirm(index.place, photos.roots.besides(known))
    if shared:
        vectors = np.stack([vector for _, vector in shared])
        index.add(vectors, [photo for photo, _ in shared])
    failures = dict[str, str]()
    if wanted:
        failures = index.add_photos(wanted, extra=extra, progress=progress, **describing)
    if worse := list(engine.find([name for name in changes.changed if name in failures])):
        engine.amend(Amendment(removed=worse))  # what it showed is gone
    waiting = {n: why for n, why in changes.skipped.items() if n in numbers}
    note_skipped(index, photos, {**waiting, **failures}, complete=complete)
    return replace(
        changes,
        new=tuple(name for name in changes.new if name not in failures),
        changed=tuple(name for name in changes.changed if name not in failures),
        skipped={**changes.skipped, **failures},
    )


def _shared(
    index: PhotoIndex, changes: Changes, extra: Mapping[str, Mapping[str, Any]]
) -> list[tuple[Photo, Any]]:
    """Photos that are copies of indexed ones, with their vectors."""
    if not changes.copied:
        return []
    found = index.lookup(list(dict.fromkeys(changes.copied.values())))
    shared = []
    for name, like in changes.copied.items():
        photo, vector = found[like]
        new = replace(photo, path=name, tags=(), fields={}, stamp=changes.stamps[name])
        shared.append((replace(new, **extra.get(name, {})), vector))
    return shared


def note_skipped(
    index: PhotoIndex, photos: Photos, failures: Mapping[str, str], *, complete: bool = False
) -> None:
    """Record skipped files, so that they are not tried again unless they change.

    With `complete`, files skipped before that are not among the photos are gone; those removed by
    hand stay out also when they come back.
    """
    seen = dict(zip(photos.names, photos.states, strict=True))
    now = {name: Skipped(reason) for name, reason in photos.skipped.items()}
    now |= {
        name: Skipped(reason, seen[name].bytes, seen[name].modified)
        for name, reason in failures.items()
    }
    before = index.engine.skipped()
    kept = {
        name: one
        for name, one in before.items()
        if one.reason == REMOVED or not (complete or name in seen)
    }
    if before != kept | now:
        index.engine.amend(Amendment(skipped=kept | now))
