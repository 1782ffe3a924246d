"""An index that compares photos by their local features: `Index` for ASMK*."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.describe.local import LocalModel, local_features, local_model
from solar.errors import SolarError
from solar.images import named_photos
from solar.search.asmk import Kernel, Signatures, aggregate
from solar.search.asmk_engine import AsmkEngine, no_vectors
from solar.search.index import Index

if TYPE_CHECKING:
    from solar.images import Box, Source
    from solar.models import PatchNet, RetrievalNet
    from solar.search.engine import Hit, Vectors, Where


class AsmkIndex(Index):
    """Photos that are found by their local features; `Index.open` opens one.

    It does what `Index` does, apart from what needs one vector a photo: queries that are vectors,
    expanding them, diffusion, maps, copies to other engines. A search finds photos that share
    anything with the query. Of a list of photos the features are taken together, and an indexed
    photo can be asked for as long as its file is where it was. A photo has a score of less than 1
    for itself, because features of a query fall on several visual words.

    Args:
        engine: Where the visual words of the photos are.
        model: What describes keypoints of queries; the one named in the index if not given.
        kernel: How photos are compared.
    """

    engine: AsmkEngine

    def __init__(
        self,
        engine: AsmkEngine,
        model: PatchNet | str | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        super().__init__(engine)
        self.kernel = kernel or Kernel()
        self._chosen = model
        self._local_model: LocalModel | None = None

    @property
    def local(self) -> LocalModel:
        """What describes keypoints, loaded when it is first needed.

        Raises:
            SolarError: It cannot be loaded, or is not the one that described the photos.
        """
        if self._local_model is None:
            model = local_model(self._chosen or self.made.model)
            if local_fingerprint(model) != self.made.fingerprint:
                raise SolarError(
                    f"The index was made with other local features ({self.made.model}): search "
                    "with those, or build the index again."
                )
            self._local_model = model
        return self._local_model

    @property
    def model(self) -> RetrievalNet:
        """Refused: no network describes whole photos here; see `local`."""
        raise no_vectors()

    def describe(self, query: Any, *, box: Box | None = None) -> Vectors:
        """Refused: there are no vectors; see `signatures`."""
        raise no_vectors()

    def signatures(self, query: Any, *, box: Box | None = None) -> Signatures:
        """The visual words that `search` looks for; its arguments and errors are the same."""
        settings = self.made.settings
        described = [
            local_features(
                self._photo(part),
                self.local,
                keypoints=settings["keypoints"],
                size=settings["size"],
                box=box,
            ).descriptors
            for part in self._parts(query, box)
        ]
        descriptors = np.concatenate(described)
        if not len(descriptors):
            raise SolarError("The query has no keypoints to look for: choose a photo with detail.")
        return aggregate(descriptors, self.engine.codebook, self.kernel.assign)

    def _ranked(
        self,
        query: Any,
        count: int,
        *,
        box: Box | None,
        expand: str | None,
        diffuse: bool,
        where: Where,
    ) -> list[Hit]:
        if expand is not None or diffuse:
            raise SolarError(
                "Expansion and diffusion take vectors, and this index compares local features "
                "(ASMK): search without them, or build an index with --model."
            )
        asked = self.signatures(query, box=box)
        [hits] = self.engine.search_signatures([asked], count, where, self.kernel)
        return hits

    def _photo(self, query: Any) -> Source:
        """What to look at: the query itself, or an indexed photo from where it was indexed."""
        if self._is_photo(query):
            photo: Source = query
            return photo
        if not isinstance(query, str):
            raise no_vectors()
        path = self._find(query)[0].path
        root = self.made.root
        found = named_photos(root)(path) if root and Path(root).exists() else None
        if found is None:
            raise SolarError(
                f"{path} is indexed, but its photo is not in {root}: give a file instead."
            )
        return found


def local_fingerprint(model: LocalModel) -> str:
    """Two models that share it give the same descriptors."""
    if isinstance(model, str):
        return model
    from solar.models import fingerprint

    return fingerprint(model)
