"""The folders that an index may show: those that this user has confirmed on this machine.

An index names the folders of its photos, its roots. One from elsewhere may name any
folder of this machine. So building an index from folders, or adding some, leaves a note in the
user's cache, without which photos are not shown to others.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from solar.errors import SolarError
from solar.files import cache_directory, replacing
from solar.images import Root, Roots
from solar.images.roots import expanded

_MOST = 8  # folders that a sentence names


def confirm(place: str | Path, roots: Roots) -> None:
    """Note the roots of the index at a place, if the cache can be written."""
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
    """The confirmed folders of the index at a place, with links resolved."""
    try:
        facts = json.loads(_note(place).read_text(encoding="utf-8"))
        return frozenset(map(str, facts["roots"]))
    except (OSError, ValueError, TypeError, KeyError, ImportError):
        return frozenset()


def confirmed_roots(place: str | Path, roots: Roots) -> Roots:
    """The roots that were confirmed for the index at a place."""
    named = confirmed(place)
    return Roots(tuple(root for root in roots.roots if _real(root) in named))


def shown_roots(
    place: str | Path,
    roots: Roots,
    *,
    photos: str | Path | None = None,
    given: Sequence[str | Path] = (),
) -> Roots:
    """The roots of the index at `place` from which photos may be shown to others.

    `photos` is a folder to take its photos from instead; folders that are `given` are confirmed,
    with all below them. A SolarError if others have not been confirmed.
    """
    if photos is not None:
        return roots.moved_to(photos)
    allowed = [os.path.realpath(expanded(folder)) for folder in given]
    below = [r for r in roots.roots if any(map(Path(_real(r)).is_relative_to, allowed))]
    now = Roots(tuple(below))
    confirm(place, now)
    fine = {*confirmed_roots(place, roots).roots, *now.roots}
    if left := [root.path for root in roots.roots if root not in fine]:
        raise SolarError(_question(place, left))
    return roots


def _question(place: str | Path, folders: Sequence[str]) -> str:
    some, rest = folders[:_MOST], len(folders[_MOST:])
    more = f" and {rest} more" if rest else ""
    options = "`roots=FOLDER` for each of them, or for a folder above them"
    if not rest:
        options = " ".join(f"`roots={quote(folder)}`" for folder in some)
    return (
        f"{place} names folders that you have not confirmed on this machine "
        f"({', '.join(some)}{more}): if their photos may be shown, confirm once with {options}; "
        "otherwise name the folder of its photos with `photos=`."
    )


def _real(root: Root) -> str:
    # The written form of an untrusted path may mislead: /photos/../home, or a link.
    return os.path.realpath(root.path)


def _name(place: str | Path) -> str:
    return str(place) if "://" in str(place) else os.path.realpath(place)


def _note(place: str | Path) -> Path:
    # One file per index, so that none waits for another.
    digest = hashlib.sha256(_name(place).encode("utf-8", "surrogateescape")).hexdigest()
    return cache_directory() / "roots" / f"{digest[:32]}.json"
