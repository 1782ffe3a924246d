"""An index stays true to its folders: what is new, changed, moved or gone, in one pass.

A file is looked at only as far as needed. One whose size and time are those of when it was
described is the same. Of the others the content's digest decides: a file that was touched keeps
its vector, one that was moved or renamed takes it along, a copy shares it, and only what has never
been seen is described.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.errors import SolarError
from solar.images import Photos, Root, Roots, Stamp, scan_roots
from solar.images.exif import ExifFacts, exif_facts
from solar.images.known_roots import confirm
from solar.images.roots import expanded
from solar.images.scan import Place
from solar.index.build import note_skipped
from solar.index.index import Address, Index, need_vectors
from solar.index.photo_index import PhotoIndex
from solar.storage.types import REMOVED, Amendment, Photo

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
        names = ("new", "changed", "moved", "deleted", "unchanged", "skipped")
        counts = {name: facts[name] for name in names}
        counts = {n: c if isinstance(c, int) else len(c) for n, c in counts.items()}
        return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def sync(
    index: PhotoIndex | Address,
    *,
    dry_run: bool = False,
    force: bool = False,
    follow: bool = True,
    exif: bool = False,
    progress: Progress | None = None,
    **describing: Any,
) -> Changes:
    """Bring an index up to date with the folders, lists and tar shards that it was made from.

    Args:
        index: The index, or its address.
        dry_run: Only report what would change.
        force: Also remove the photos of a root that is empty or missing, which usually means that
            a disk is not connected.
        follow: Follow symbolic links to folders.
        exif: Also read time, position and camera of photos that were indexed without them; values
            that the index already has stay.
        progress: Called while photos are described.
        **describing: For `solar.extract`: `device`, `max_pixels`, ….

    Returns:
        What changed. Photos that could not be described are among `skipped`.

    Raises:
        SolarError: A root is missing, or the index has none; then nothing is changed.
    """
    if not isinstance(index, PhotoIndex):
        with Index.open(index) as opened:
            known: dict[str, Any] = {"dry_run": dry_run, "force": force, "follow": follow}
            return sync(opened, exif=exif, progress=progress, **known, **describing)
    if not index.roots:
        raise SolarError(
            "The index does not know where its photos are: add their folder with `solar index add`."
        )
    known = index.engine.stamps()
    photos = scan_roots(index.roots, known, follow=follow)
    if not force:
        _refuse_empty(index, photos, known)
    changes = compare(index, photos, known, retry=describing.get("max_pixels") is not None)
    if dry_run:
        return changes
    made = apply(index, photos, changes, complete=True, progress=progress, **describing)
    if exif:
        index.engine.amend(Amendment(facts=_unread(index, photos)))
    return made


def _unread(index: PhotoIndex, photos: Photos) -> dict[str, ExifFacts]:
    """EXIF facts of photos that the index lacks, by name."""
    facts = dict[str, ExifFacts]()
    for photo in chain.from_iterable(index.engine.photos()):
        known = ExifFacts(photo.taken, photo.position, photo.camera)
        if None not in known or photo.path not in photos.numbers:
            continue
        with suppress(SolarError):  # of a shard that is gone
            found = exif_facts(photos.read(photos.numbers[photo.path]))
            new = found._replace(**{n: None for n, v in known._asdict().items() if v is not None})
            facts |= {photo.path: new} if any(new) else {}
    return facts


def compare(
    index: PhotoIndex,
    photos: Photos,
    known: Mapping[str, Stamp | None],
    *,
    complete: bool = True,
    retry: bool = False,
) -> Changes:
    """The changes that bring an index up to date with some photos.

    Args:
        index: The index.
        photos: What a scan found.
        known: `Storage.stamps`.
        complete: Whether a photo that is not among them is gone.
        retry: Whether photos that could not be described before are tried again.
    """
    numbers = photos.numbers
    names, stamps = frozenset(numbers), dict[str, Stamp]()
    unread = tuple(name for name in photos.skipped if name.endswith("/"))  # may come back
    gone = [n for n in known if n not in names and not n.startswith(unread)] if complete else []
    before = index.engine.skipped()
    new, changed, unchanged = list[str](), list[str](), 0
    touched, skipped = dict[str, Stamp](), dict(photos.skipped)
    for name, number in numbers.items():
        seen, stamp = photos.seen[number], known.get(name)
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
    alike_in_size = [name for name in new if photos.seen[numbers[name]].bytes in sizes]
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
            elif index.has_vectors:  # others have nothing to share
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
    store: str | Path | None = None,
    extra: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
    **describing: Any,
) -> Changes:
    """Make the changes that `compare` found between an index and photos, and return those made.

    Those that need no network come first. `complete` is as for `compare`; other arguments are as
    for `PhotoIndex.add_photos`.
    """
    numbers = photos.numbers
    lacking = (name for name in (*changes.new, *changes.changed) if name not in changes.copied)
    wanted = photos.select(numbers[name] for name in lacking)
    if wanted and index.has_vectors:
        _refuse_unknown_model(index.spec.model)
    engine, tags = index.engine, index.engine.find(changes.changed)
    extra = {n: {"tags": old.tags} for n, old in tags.items() if old.tags} | dict(extra or {})
    shared = _shared(index, changes, extra)
    stamps = {new: changes.stamps[new] for new in changes.moved.values()} | dict(changes.touched)
    before = index.roots
    roots = photos.roots if photos.roots and photos.roots != before else None
    engine.amend(Amendment(changes.deleted, changes.moved, stamps, None, roots))
    confirm(index.place, photos.roots.besides(before))
    if shared:
        vectors = np.stack([vector for _, vector in shared])
        need_vectors(index).add(vectors, [photo for photo, _ in shared])
    failures = dict[str, str]()
    if wanted:
        known: dict[str, Any] = {"store": store, "progress": progress, **describing}
        failures = index.add_photos(wanted, extra=extra, **known)
    if worse := [name for name in changes.changed if name in failures]:
        engine.amend(Amendment(removed=worse))  # what it showed is gone
    waiting = {n: why for n, why in changes.skipped.items() if n in numbers}
    note_skipped(index, photos, {**waiting, **failures}, complete=complete)
    return replace(
        changes,
        new=tuple(name for name in changes.new if name not in failures),
        changed=tuple(name for name in changes.changed if name not in failures),
        skipped={**changes.skipped, **failures},
    )


def _refuse_unknown_model(model: str) -> None:
    from solar.models.hub.repository import refuse_unfetched

    if not model:
        raise SolarError(
            "The index does not record its model, so new photos cannot be described: run `solar "
            "extract` with the model that it was built with, and add the store."
        )
    refuse_unfetched(model)


def _shared(
    index: PhotoIndex, changes: Changes, extra: Mapping[str, Mapping[str, Any]]
) -> list[tuple[Photo, Any]]:
    """Photos that are copies of indexed ones, with their vectors."""
    if not changes.copied:
        return []
    found = need_vectors(index).engine.lookup(list(dict.fromkeys(changes.copied.values())))
    shared = []
    for name, like in changes.copied.items():
        photo, vector = found[like]
        new = replace(photo, path=name, tags=(), stamp=changes.stamps[name])
        shared.append((replace(new, **extra.get(name, {})), vector))
    return shared


def _refuse_empty(index: PhotoIndex, photos: Photos, known: Mapping[str, Stamp | None]) -> None:
    """Refuse a root that is empty now: its disk may be missing."""
    roots, here = index.roots, frozenset(photos.names)
    found = set[Root]()
    for name, place in zip(photos.names, photos.places, strict=True):
        holders, _ = roots.split(name)
        found |= {one for one in holders if len(holders) == 1 or _is_below(place, one)}
    empty = [root for root in roots.roots if root not in found]
    for root in empty:
        if count := sum(n not in here and root in roots.split(n)[0] for n in known):
            raise SolarError(
                f"{root.path} holds no photo any more, and the index has {count:,} of it: "
                "connect its disk, give its new path with `solar index relocate`, or pass "
                "`force=True` to remove its photos from the index."
            )


def _is_below(place: Place, root: Root) -> bool:
    if not isinstance(place, Path):
        return str(place[0]) == root.path
    return root.folder is not None and place.is_relative_to(root.folder)


def relocate(
    index: PhotoIndex, place: str | Path, root: str | None = None
) -> tuple[Root, int, int]:
    """Record that a root is at another `place` now; its photos keep their names and vectors.

    `root` is its old place or its name, unless there is only one. Returns the root, how many photos
    the index has of it, and how many of them are there. A SolarError if there is no such root or
    place, or none of the photos is there.
    """
    roots, there = index.roots, expanded(place).resolve()
    if not there.exists():
        raise SolarError(f"There is no file or folder {there}: check the path.")
    wanted = None if root is None else str(expanded(root).resolve())
    found = [one for one in roots.roots if root is None or one.name == root or one.path == wanted]
    if len(found) != 1:
        known = ", ".join(one.path for one in roots.roots) or "none"
        raise SolarError(f"Use `root=` to name the folder that has moved: {known}.")
    if any(one.path == str(there) for one in roots.roots if one != found[0]):
        raise SolarError(
            f"{there} is another folder of the index: give the new path of {found[0].path}."
        )
    moved = replace(found[0], path=str(there))
    all_roots = type(roots)(tuple(moved if one == found[0] else one for one in roots.roots))
    names = [name for name in index.engine.stamps() if found[0] in roots.split(name)[0]]
    here = sum(all_roots.find(name) is not None for name in names)
    if names and not here:
        raise SolarError(
            f"None of the {len(names):,} photos of {found[0].path} is in {there}: check the path."
        )
    index.engine.amend(Amendment(roots=all_roots))
    confirm(index.place, Roots((moved,)))
    return moved, len(names), here
