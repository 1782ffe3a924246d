"""Add photos to an index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from solar.images import Photos, collect
from solar.images.scan import is_raw
from solar.index.build import BuiltIndex, warn_of_unknown
from solar.index.index import Address, Index
from solar.index.ingest import Changes, apply, plan
from solar.index.metadata import read_metadata
from solar.index.photo_index import PhotoIndex

if TYPE_CHECKING:
    from solar.describe.progress import Progress

LeaveOut: TypeAlias = Callable[[PhotoIndex, Photos, Changes], tuple[Changes, dict[str, str]]]
"""Takes some new photos out of changes, and says why of each."""


def add(
    sources: Sequence[str | Path],
    address: Address,
    *,
    new: bool = False,
    leave_out: LeaveOut | None = None,
    metadata: str | Path | None = None,
    progress: Progress | None = None,
    follow: bool = True,
    describing: Mapping[str, Any] | None = None,
    **options: Any,
) -> BuiltIndex:
    """Add photos to an index, or replace those that have changed.

    What is below a root of the index is called by that; other folders become further roots. Photos
    that the index has, also under another name, are not described again. With `new`, those whose
    name is in the index already are left out. `leave_out` says which new photos are skipped and
    why: `solar.near_duplicates.copy_lookup.without_copies` skips copies. Other arguments are as for
    `solar.index.build.build_index`.
    """
    index = Index.open(address, **options)
    extra = read_metadata(metadata) if metadata else {}
    how = describing or {}
    photos = collect(sources, index.roots, follow=follow)
    known = index.engine.stamps()
    retry = how.get("max_pixels") is not None
    changes = plan(index, photos, known, complete=False, retry=retry)
    if new:
        changes = replace(
            changes,
            changed=(),
            copied={n: like for n, like in changes.copied.items() if n not in known},
        )
    changes = _with_facts(index, photos, changes, extra)
    copies: dict[str, str] = {}
    if leave_out is not None:
        changes, copies = leave_out(index, photos, changes)
    made = apply(index, photos, changes, extra=extra, progress=progress, **how)
    count = len(made.new) + len(made.changed) + len(made.moved)
    previews = sum(map(is_raw, (*made.new, *made.changed)))
    built = BuiltIndex(index, count, {**made.skipped, **copies}, previews)
    warn_of_unknown(metadata, extra, built)
    return built


def _with_facts(
    index: PhotoIndex, photos: Photos, changes: Changes, named: Collection[str]
) -> Changes:
    """Changes with the named photos that stay as they are: their metadata is replaced."""
    same = set(photos.names) - {*changes.new, *changes.changed, *changes.copied, *changes.skipped}
    more = sorted(same & set(named))
    if not index.has_vectors:  # they are described again
        return replace(changes, changed=(*changes.changed, *more))
    found = index.engine.find(more)
    stamps = {name: stamp for name in more if (stamp := found[name].stamp) is not None}
    return replace(
        changes,
        changed=(*changes.changed, *more),
        copied={**changes.copied, **{name: name for name in stamps}},
        stamps={**changes.stamps, **stamps},
        touched={n: stamp for n, stamp in changes.touched.items() if n not in more},
    )
