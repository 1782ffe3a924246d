"""One run at a time writes a store, and sweeps what a killed one left."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from solar.describe.shard_files import SWEPT
from solar.describe.store import Store
from solar.describe.store_files import MANIFEST, make_folder, read_manifest, unwritable
from solar.files import LOCK, TEMPORARY, locked


@contextlib.contextmanager
def lock(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let one run at a time write the store at `path`, and sweep what a killed run left there.

    Only whoever starts a run takes it; the workers that write its shards do not. A SolarError if
    another run holds it, or the folder is no place for a store.
    """
    path = Path(path)
    make_folder(path)
    busy = f"Another run is writing {path}; wait until it is done or choose another folder."
    with locked(path / LOCK, busy, complaint=unwritable):
        _sweep(path)
        yield


def _sweep(path: Path) -> None:
    """Delete temporary files and what the manifest does not name: kills leave them, and growth."""
    named = set()
    if (path / MANIFEST).exists():
        store = Store(path, read_manifest(path))
        shards = {store._shard(number): header for number, header in store._headers.items()}
        named = {shard.vectors(header).name for shard, header in shards.items()}
        named |= {shard.record.name for shard in map(store._shard, store._slices)}
        named.add(store._manifest.source)
    try:
        for file in list(path.iterdir()):
            orphan = SWEPT.fullmatch(file.name) and file.name not in named
            if orphan or TEMPORARY.fullmatch(file.name):
                file.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
