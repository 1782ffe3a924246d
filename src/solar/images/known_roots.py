"""Which folders an index may show: those that this user has named for it, on this machine.

An index or a store names the folders of its photos, its roots. One that somebody sent may name any
folder of this machine. So whoever makes an index from folders, or adds some, leaves a note in their
own cache, and what shows photos to others asks for that. The index itself cannot vouch for its
roots, and being near them is no proof either: a home folder is near everything.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from solar.errors import SolarError
from solar.files import cache_directory, replacing
from solar.images import Root, Roots
from solar.images.roots import expanded

_MOST = 8  # folders that a sentence names


def confirm(place: str | Path, roots: Roots) -> None:
    """Note that this user has named roots for the index or store at a place.

    Where the note cannot be written, they will be asked for once more.
    """
    before = confirmed(place)
    now = before | {_real(root) for root in roots.roots}
    if now == before:
        return
    facts = {"place": _name(place), "roots": sorted(now)}
    with contextlib.suppress(SolarError, ImportError):  # where the cache is, a package may say
        note = _note(place)
        with replacing(note, durable=False) as temporary:
            temporary.write_text(json.dumps(facts), encoding="utf-8")


def confirmed(place: str | Path) -> frozenset[str]:
    """The folders that were named for the index or store at a place, without links."""
    try:
        facts = json.loads(_note(place).read_text(encoding="utf-8"))
        return frozenset(map(str, facts["roots"]))
    except (OSError, ValueError, TypeError, KeyError, ImportError):
        return frozenset()


def confirmed_roots(place: str | Path, roots: Roots) -> Roots:
    """Those of the roots that were named for the index or store at a place."""
    named = confirmed(place)
    return Roots(tuple(root for root in roots.roots if _real(root) in named))


def shown_roots(
    place: str | Path,
    roots: Roots,
    *,
    photos: str | Path | None = None,
    given: Sequence[str | Path] = (),
) -> Roots:
    """Where photos are that an index shows to others.

    Args:
        place: The index.
        roots: Those that it names.
        photos: Where its photos are instead.
        given: Folders that may be shown, and all below them; noted for the next time.

    Raises:
        SolarError: The index names folders that this user has not.
    """
    if photos is not None:
        return roots.moved_to(photos)
    allowed = [os.path.realpath(expanded(folder)) for folder in given]
    now = Roots(tuple(root for root in roots.roots if _is_below(root, allowed)))
    confirm(place, now)
    fine = {*confirmed_roots(place, roots).roots, *now.roots}
    if left := [root.path for root in roots.roots if root not in fine]:
        raise SolarError(_question(place, left))
    return roots


def _question(place: str | Path, folders: Sequence[str]) -> str:
    some = folders[:_MOST]
    more = "" if len(folders) == len(some) else f" and {len(folders) - len(some)} more"
    options = " ".join(f"`roots={quote(folder)}`" for folder in some)
    if more:
        options = "`roots=FOLDER` for each of them, or for a folder above them"
    return (
        f"{place} names folders that you have not confirmed on this machine "
        f"({', '.join(some)}{more}): if their photos may be shown, confirm once with {options}; "
        "otherwise name the folder of its photos with `photos=`."
    )


def _is_below(root: Root, folders: Iterable[str]) -> bool:
    return any(Path(_real(root)).is_relative_to(folder) for folder in folders)


def _real(root: Root) -> str:
    # Of a stranger's paths, the written form says nothing: /photos/../home, or a link.
    return os.path.realpath(root.path)


def _name(place: str | Path) -> str:
    return str(place) if "://" in str(place) else os.path.realpath(place)


def _note(place: str | Path) -> Path:
    # A file each: no index waits for another, and none is read for another.
    digest = hashlib.sha256(_name(place).encode("utf-8", "surrogateescape")).hexdigest()
    return cache_directory() / "roots" / f"{digest[:32]}.json"
