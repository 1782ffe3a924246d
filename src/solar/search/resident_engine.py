"""The embedded engine with its vectors in the memory of GPUs, for many searches.

They are loaded by the first search. Photos that are added or removed later are followed; answers
are those of `solar.search.folder_engine`, and with codes exact. Where there is no room a sentence
says so, and the processor searches.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from solar.arrays import Flags, RowNumbers, Vectors
from solar.search.conditions import Where
from solar.search.device_shard import DeviceMemoryError
from solar.search.folder_engine import FolderEngine
from solar.search.integrity import rows_of
from solar.search.metadata import Metadata
from solar.search.resident import ResidentVectors, resident_on, tell_fallback
from solar.search.types import DescriptorSpec, Hit


def open_index(
    address: str | os.PathLike[str], metadata: Metadata | None = None, *, device: str
) -> FolderEngine:
    """Open an index of vectors in a folder, to be searched on a device.

    Args:
        address: The folder.
        metadata: What was read of it already.
        device: `cuda` for every GPU, `cuda:1` for one of them.
    """
    folder = Path(address)
    metadata = metadata or Metadata(folder)
    return ResidentEngine(folder, *metadata.facts, metadata, resident=resident_on(device))


class ResidentEngine(FolderEngine):
    """An index in a folder, with its vectors on a device."""

    def __init__(
        self,
        folder: Path,
        spec: DescriptorSpec,
        compress: str,
        metadata: Metadata | None = None,
        *,
        resident: ResidentVectors | None,
    ) -> None:
        super().__init__(folder, spec, compress, metadata)
        self._resident = resident
        self._present: tuple[RowNumbers, Flags] | None = None

    def search(self, queries: Vectors, k: int, where: Where = ()) -> list[list[Hit]]:
        """The k best photos that satisfy `where`, for each of the queries (n, dim)."""
        if (resident := self._resident) is not None:
            try:
                return self._search_on(resident, queries, k, where)
            except DeviceMemoryError as error:
                self._resident = None
                tell_fallback(error)
        return super().search(queries, k, where)

    def close(self) -> None:
        """Let go of files, connections and memory."""
        if self._resident is not None:
            self._resident.close()
        super().close()

    def _search_on(
        self, resident: ResidentVectors, queries: Vectors, k: int, where: Where
    ) -> list[list[Hit]]:
        with self._metadata.snapshot(self._state) as (view, state):
            rows = len(state.vectors)
            present = self._without(state.removed, rows)
            if where:
                present = np.zeros(rows, np.bool_)
                present[view.matching(where)] = True
            stamp = (str(state.file), *state.blocks)
            found = resident.search(queries, state.vectors, k, present=present, stamp=stamp)
            ranked = [
                [(row, score) for row, score in zip(*pair, strict=True) if row >= 0]
                for pair in zip(*(part.tolist() for part in found), strict=True)
            ]
            wanted = rows_of(ranked)
            self._check(state, wanted)
            paths = state.paths(view, wanted)
        return [[Hit(paths[row], score) for row, score in best] for best in ranked]

    def _without(self, removed: RowNumbers, rows: int) -> Flags | None:
        """Which rows are left; the same array until another one is removed."""
        if not len(removed):
            return None
        kept = self._present  # another thread may put a later one in its place
        if kept is None or kept[0] is not removed:
            present = np.ones(rows, np.bool_)
            present[removed] = False
            kept = self._present = removed, present
        return kept[1]
