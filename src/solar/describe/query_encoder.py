"""Queries become descriptors by the path on which the photos of a store did."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from solar.arrays import Floats, Pixels
from solar.describe.pipeline import describer, stack
from solar.describe.settings import Settings, for_more
from solar.images import Box, Source
from solar.models import RetrievalNet

# Pixels a forward pass: ten photos of 1024 × 768, a few GB of feature maps in a large network.
_PIXELS = 8 * 2**20


class QueryEncoder:
    """Describes queries as the photos that they are compared with were described.

    Decoding, the fused network and the averaging of scales are those of `solar.extract`. The
    network is left as it is. Several threads may use one encoder.

    Args:
        recorded: The settings that a store or an index keeps; the network's own where it has none.
    """

    def __init__(self, net: RetrievalNet, recorded: Mapping[str, Any] | None = None) -> None:
        # torch agrees with all backends, and needs neither their packages nor an export.
        self.net = net
        self.settings = Settings.of(net, **{**for_more(recorded or {}), "backend": "torch"})
        self._run = describer(net, self.settings)
        self._alone = threading.Lock()  # a GPU's recorded graphs have one input each

    def __call__(self, photo: Source, box: Box | None = None) -> Floats:
        """The descriptor (dim,) of a photo or of a box in it; raises as `decode` does."""
        [row] = self.describe([self.decode(photo, box)])
        return row

    def decode(self, photo: Source, box: Box | None = None) -> Pixels:
        """A photo as the network takes it, (h, w, 3).

        A SolarError if it cannot be read, the box misses it, or too little is left of it.
        """
        return self.settings.decode(photo, box).pixels

    def describe(self, photos: Sequence[Pixels]) -> list[Floats]:
        """Descriptors (dim,) of decoded photos of one size, in few forward passes."""
        height, width = photos[0].shape[:2]
        step = max(1, _PIXELS // (height * width))
        rows: list[Floats] = []
        for start in range(0, len(photos), step):
            batch = stack(photos[start : start + step], self._run.device)
            with self._alone:
                rows += list(self._run(batch).cpu().numpy())
        return rows
