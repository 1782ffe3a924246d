"""Whether an index in a folder is what its metadata say."""

import hashlib
from pathlib import Path

import numpy as np

from solar.files import file_digest
from solar.search.exact import Stored
from solar.search.metadata import Version, View


def audit(folder: Path, view: View, version: Version, vectors: Stored) -> list[str]:
    """Read everything, recompute every checksum, and return one sentence a problem."""
    return [
        *(f"The metadata of {folder} is damaged: {text}." for text in view.problems()),
        *row_problems(folder, view, version),
        *_blocks(folder, view, version, vectors),
        *_codes(folder, version),
    ]


def row_problems(folder: Path, view: View, version: Version) -> list[str]:
    """Every row belongs to one photo, or was removed."""
    photos = view.rows()
    rows = np.sort(np.concatenate([photos, view.removed()]))
    if len(photos) != version.photos:
        return [f"{folder} has {len(photos)} photos and should have {version.photos}."]
    if not np.array_equal(rows, np.arange(version.rows)):
        return [f"The photos of {folder} do not match its {version.rows} rows."]
    return []


def _blocks(folder: Path, view: View, version: Version, vectors: Stored) -> list[str]:
    """The vectors are those that were written."""
    problems, end = [], 0
    for block in view.blocks():
        last = block.first + block.rows
        if block.first != end:
            return [f"The record of what was written to {folder / version.vectors} has gaps."]
        if hashlib.sha256(vectors[block.first : last].data).hexdigest() != block.sha256:
            problems.append(f"{folder / version.vectors} is damaged in rows {end} to {last - 1}.")
        end = last
    if end != version.rows:
        problems.append(f"{folder / version.vectors} holds {end} rows, not {version.rows}.")
    return problems


def _codes(folder: Path, version: Version) -> list[str]:
    paths = ((folder / part.name, part.sha256) for part in version.codes)
    return [
        f"{path} is missing or damaged: run `solar index compact` to make it anew."
        for path, digest in paths
        if not path.exists() or file_digest(path) != digest
    ]
