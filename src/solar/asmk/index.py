"""An index that compares photos by their local features: ASMK*."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from solar.asmk.features import Finder
from solar.asmk.folder import AsmkFolder
from solar.asmk.kernel import Kernel, Signatures, aggregate
from solar.asmk.regions import GRID, PhotoRegions, read_regions
from solar.errors import SolarError
from solar.index.photo_index import NoVectorsError, PhotoIndex
from solar.index.sources import working_folder
from solar.local.features import LocalModel, local_features, local_fingerprint, local_model
from solar.storage.catalogue import Metadata
from solar.storage.conditions import Where
from solar.storage.types import Hit, Photo

if TYPE_CHECKING:
    from solar.describe.progress import Progress
    from solar.images import Box, Photos, Source

# What `Index` has beyond this one.
_OF_VECTORS = frozenset(
    {"model", "encoder", "describe", "search_vectors", "search_like", "add", "copy"}
)


def open_index(
    address: str | os.PathLike[str], model: LocalModel | str | None, metadata: Metadata
) -> AsmkIndex:
    """Open an ASMK* index; see `Index.open`."""
    return AsmkIndex(AsmkFolder(Path(address), metadata.facts[0], metadata), model)


class AsmkIndex(PhotoIndex):
    """Photos that are found by their local features; `Index.open` opens one.

    What needs one vector a photo it does not have, and says so: queries that are vectors, copies to
    other engines, ways to re-rank that take vectors. A search finds photos that share anything with
    the query. Of a list of photos the features are taken together, and an indexed photo can be
    asked for as long as its file is where it was. A photo has a score of less than 1 for itself,
    because features of a query fall on several visual words.

    `model` describes keypoints of queries; the one named in the index if not given.
    """

    engine: AsmkFolder

    def __init__(
        self,
        engine: AsmkFolder,
        model: LocalModel | str | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        super().__init__(engine)
        self.kernel = kernel or engine.kernel
        self._chosen = model

    def __getattr__(self, name: str) -> NoReturn:
        if name in _OF_VECTORS:
            raise NoVectorsError
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    @cached_property
    def local(self) -> LocalModel:
        """What describes keypoints, loaded when it is first needed.

        A SolarError if it cannot be loaded, or is not the one that described the photos.
        """
        from solar.models.hub.repository import refuse_moved, refuse_unfetched

        if not self._chosen:
            refuse_unfetched(self.spec.model)
            refuse_moved(self.spec.model)
        model = local_model(self._chosen or self.spec.model)
        if local_fingerprint(model) != self.spec.fingerprint:
            raise SolarError(
                f"The index was made with other local features ({self.spec.model}): search with "
                "those, or build the index again."
            )
        return model

    def load_model(self) -> None:
        """Load what describes keypoints, and the visual words; see `PhotoIndex.load_model`."""
        _ = self.local, self.engine.codebook

    def add_photos(
        self,
        photos: Photos,
        *,
        store: str | Path | None = None,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
        regions: Mapping[str, Sequence[Box]] | None = None,
        **_: Any,
    ) -> dict[str, str]:
        """Find local features, and add photos; see `PhotoIndex.add_photos`.

        For an index with boxes, `regions` has some by photo; photos without are one region each.
        """
        settings = self.spec.settings
        made = settings.get("regions")
        boxes = made and PhotoRegions(None if made == GRID else regions or {})
        with working_folder(self.engine.folder, store) as place:
            finder = Finder(self.local, settings["keypoints"], settings["size"], place, boxes)
            failures = finder.look(photos, None, progress)
            found = finder.signatures(photos, failures, self.engine.codebook, extra or {})
            self.engine.add_signatures(found)
        return failures

    def read_boxes(self, path: str | Path, names: Collection[str]) -> dict[str, list[Box]]:
        """Read a file of boxes; see `PhotoIndex.read_boxes`."""
        if self.spec.settings.get("regions") != "boxes":
            return super().read_boxes(path, names)
        found = read_regions(path)
        if found.boxes is None:
            raise SolarError(
                "The index was built with boxes, not with a grid: give a file of boxes."
            )
        found.refuse_unknown(names)
        return {name: list(boxes) for name, boxes in found.boxes.items()}

    def signatures(self, query: Any, *, box: Box | None = None) -> Signatures:
        """The visual words that `search` looks for; its arguments and errors are the same."""
        parts = [(self._source(part.photo), part.box) for part in self._parts(query, box)]
        known = {name: self.spec.settings[name] for name in ("keypoints", "size")}
        descriptors = np.concatenate(
            [
                local_features(source, self.local, box=own, **known).descriptors
                for source, own in parts
            ]
        )
        if not len(descriptors):
            raise SolarError("The query has no keypoints to look for: choose a photo with detail.")
        return aggregate(descriptors, self.engine.codebook, self.kernel.assign)

    _described = signatures

    def nearest(self, asked: Signatures, count: int, where: Where) -> list[Hit]:
        """Photos that share visual words with these; see `PhotoIndex.nearest`."""
        [hits] = self.engine.search_signatures([asked], count, where, self.kernel)
        return hits

    def _source(self, part: Any) -> Source:
        """What to look at: the query itself, or an indexed photo from where it was indexed."""
        if not self._is_photo(part) and not isinstance(part, str):
            raise NoVectorsError
        photo = self._photo_of(part)
        if not isinstance(photo, Photo):
            return photo
        found = self.roots.find(photo.path)
        if found is None:
            raise SolarError(
                f"{photo.path} is indexed, but its photo is not in {self.roots}: give a file "
                "instead."
            )
        return found
