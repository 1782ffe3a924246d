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
from solar.search.engine import Hit, parse_where
from solar.search.index import Conditions, Index

if TYPE_CHECKING:
    from solar.images import Box, Source
    from solar.models import PatchNet, RetrievalNet
    from solar.search.engine import Vectors
    from solar.search.verify import VerifySettings


class AsmkIndex(Index):
    """Photos that are found by their local features; `Index.open` opens one.

    It does what `Index` does, apart from what needs one vector a photo: expanding queries,
    diffusion, maps, copies to other engines.

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
        parts = list(query) if isinstance(query, list | tuple) else [query]
        if not parts:
            raise SolarError("A search needs at least one photo.")
        if box is not None and (len(parts) > 1 or not self._is_photo(parts[0])):
            raise SolarError("A box goes with one photo given as a file, not with other queries.")
        settings = self.made.settings
        described = [
            local_features(
                self._photo(part),
                self.local,
                keypoints=settings["keypoints"],
                size=settings["size"],
                box=box,
            ).descriptors
            for part in parts
        ]
        descriptors = np.concatenate(described)
        if not len(descriptors):
            raise SolarError("The query has no keypoints to look for: choose a photo with detail.")
        return aggregate(descriptors, self.engine.codebook, self.kernel.assign)

    def search(
        self,
        query: Any,
        k: int = 10,
        *,
        box: Box | None = None,
        expand: str | None = None,
        diffuse: bool = False,
        where: Conditions = None,
        verify: bool | VerifySettings = False,
    ) -> list[Hit]:
        """Find the photos most similar to a query, among those that share anything with it.

        Args:
            query: A photo (a path, the bytes of a file, a PIL image, a uint8 array), the path of an
                indexed photo that is still where it was, or a list of these, whose features are
                taken together.
            k: How many photos at most.
            box: x1, y1, x2, y2 of what to look for in the one photo given.
            expand: Refused: it takes vectors.
            diffuse: Refused: it takes vectors.
            where: Only photos that satisfy these: see `parse_where`.
            verify: Match the best photos with the query keypoint by keypoint, and put those first
                that show the same thing; see `solar.search.verify`.

        Returns:
            Photos and scores, best first. A photo has a score of less than 1 for itself, because
            features of a query fall on several visual words.

        Raises:
            SolarError: A photo cannot be read or is not indexed, or an argument makes no sense.
        """
        if expand is not None or diffuse:
            raise SolarError(
                "Expansion and diffusion take vectors, and this index compares local features "
                "(ASMK): search without them, or build an index with --model."
            )
        if k < 1:
            raise SolarError(f"A search gives at least one photo, not {k}.")
        conditions = parse_where(where)
        verifier = self._verifying(verify) if verify else None
        count = max(k, verifier.settings.top) if verifier else k
        asked = self.signatures(query, box=box)
        [hits] = self.engine.search_signatures([asked], count, conditions, self.kernel)
        if verifier:
            hits = verifier.verify(self._local(verifier, query, box), hits)
        return hits[:k]

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
