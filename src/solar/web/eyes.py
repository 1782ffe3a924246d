"""A model and the index it searches: what the app sees with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solar.errors import SolarError
from solar.images import Box, load
from solar.search import Index
from solar.search.engine import Vectors

if TYPE_CHECKING:
    from solar.describe.pipeline import Describer
    from solar.models import RetrievalNet

# Pixels a forward pass: ten photos of 1024 × 768, a few GB of feature maps in a large network.
_PIXELS = 8 * 2**20
# Less than this has nothing to recognise, and shrinks to nothing inside a network.
_LEAST = 8


class Eye:
    """One way to see: describes queries as the photos of its index were described.

    Args:
        name: What visitors call it.
        index: Its vectors; the network is loaded by `open`.
    """

    def __init__(self, name: str, index: Index) -> None:
        self.name, self.index = name, index
        self.opened = asyncio.Event()
        self.problem: SolarError | None = None
        self._net: RetrievalNet | None = None
        self._describer: Describer | None = None

    def open(self) -> None:
        """Load the network; if that fails, queries that need it say why."""
        from solar.describe.pipeline import Settings, describer

        known = self.index.spec.settings
        try:
            net = self.index.model
            settings = Settings.of(net, scales=known.get("scales"))
            self._describer, self._net = describer(net, settings), net
        except SolarError as error:
            self.problem = error

    @property
    def net(self) -> RetrievalNet:
        """The network, once it is loaded."""
        if self._net is None:
            raise self.problem or SolarError("The model is not loaded yet.")
        return self._net

    @property
    def attention(self) -> list[int]:
        """The layers that have attention."""
        return [] if self._net is None else sorted(self._net.config.attention)

    def pixels(self, source: Path | bytes, box: Box | None) -> NDArray[np.uint8]:
        """A photo as its network takes it, (h, w, 3).

        Raises:
            SolarError: It cannot be read, the box misses it, or too little is left of it.
        """
        known = self.index.spec.settings
        size = known.get("size") or self.net.config.size
        pixels = load(source, size, box=box, orient=known.get("orient", True)).pixels
        if min(pixels.shape[:2]) < _LEAST:
            raise SolarError(
                f"Only {pixels.shape[1]} × {pixels.shape[0]} pixels are left to search with: "
                "choose a larger box or photo."
            )
        return pixels

    def describe(self, photos: Sequence[NDArray[np.uint8]]) -> list[Vectors]:
        """Vectors (dim,) of photos of one size, in as few forward passes as memory allows."""
        import torch

        if self._describer is None:
            raise self.problem or SolarError("The model is not loaded yet.")
        height, width = photos[0].shape[:2]
        step = max(1, _PIXELS // (height * width))
        rows: list[Any] = []
        for start in range(0, len(photos), step):
            batch = torch.from_numpy(np.stack(photos[start : start + step]))
            rows += list(self._describer(batch).cpu().numpy())
        return [np.asarray(row, np.float32) for row in rows]
