"""An index stays true to its folders."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.errors import SolarError
from solar.images import Photos, Root, Roots, Stamp, scan_roots
from solar.images.exif import ExifFacts, exif_facts
from solar.images.known_roots import confirm
from solar.images.roots import expanded
from solar.images.scan import Place
from solar.index.index import Address, opened
from solar.index.ingest import Changes, apply, plan
from solar.index.photo_index import PhotoIndex
from solar.storage.types import Amendment

if TYPE_CHECKING:
    from solar.describe.progress import Progress


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
        **describing: As for `solar.build`: `device`, `max_pixels`, ….

    Returns:
        What changed. Photos that could not be described are among `skipped`.

    Raises:
        SolarError: A root is missing, or the index has none; then nothing is changed.
    """
    with opened(index) as found:
        if not found.roots:
            raise SolarError(
                "The index does not know where its photos are: add their folder with `solar index "
                "add`."
            )
        known = found.engine.stamps()
        photos = scan_roots(found.roots, known, follow=follow)
        if not force:
            _refuse_empty(found, photos, known)
        changes = plan(found, photos, known, retry=describing.get("max_pixels") is not None)
        if dry_run:
            return changes
        made = apply(found, photos, changes, complete=True, progress=progress, **describing)
        if exif:
            found.engine.amend(Amendment(facts=_unread(found, photos)))
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
