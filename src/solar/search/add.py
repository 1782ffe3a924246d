"""More photos for an index of either kind: of vectors, or of local features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.search import asmk_build
from solar.search.asmk_index import AsmkIndex
from solar.search.build import Built, describing, details
from solar.search.index import Address, Index

if TYPE_CHECKING:
    from solar.describe.extractor import Progress


def add(
    source: str | Path,
    address: Address,
    *,
    store: str | Path | None = None,
    metadata: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Built:
    """Add photos to an index, or replace those of the same path; see `solar.search.build`."""
    index = Index.open(address, **options)
    if isinstance(index, AsmkIndex):
        return asmk_build.add(source, index, store=store, metadata=metadata, progress=progress)
    model = index.made.model or None
    with describing(source, address, model, store, progress) as (described, photos):
        count = index.add(described, details(described, photos, metadata))
        return Built(index, count, described.failures)
