"""Models that visitors search with: an index, and whether its network is loaded yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from solar.errors import SolarError
from solar.index import Index, PhotoIndex
from solar.index.index import need_vectors
from solar.web.api.schemas import ModelInfo
from solar.web.guard.thread_pools import NetworkThread

if TYPE_CHECKING:
    from solar.describe.pipeline import QueryEncoder


class ServedModel:
    """An index under the name that visitors know its model by."""

    def __init__(self, name: str, index: PhotoIndex) -> None:
        self.name, self.index = name, index
        self._tried = asyncio.Event()
        self._problem: SolarError | None = None

    @property
    def ready(self) -> bool:
        """Whether loading has ended, well or not."""
        return self._tried.is_set()

    async def load(
        self, network: NetworkThread, loading: Callable[[PhotoIndex], object] | None = None
    ) -> None:
        """Load the network in its thread; if that fails, queries that need it say why.

        `loading` loads the encoder of an index; by default without sharing networks.
        """
        try:
            await network.alone(lambda: (loading or PhotoIndex.load_model)(self.index))
        except SolarError as error:
            self._problem = error
        self._tried.set()

    async def loaded(self) -> PhotoIndex:
        """Wait until the network is loaded; a SolarError if that failed."""
        await self._tried.wait()
        if self._problem is not None:
            raise self._problem
        return self.index

    async def encoder(self) -> QueryEncoder:
        """The encoder of queries; a SolarError if loading failed or it gives no vectors."""
        return need_vectors(await self.loaded()).encoder

    async def info(self) -> ModelInfo:
        """What the model can do; nothing if loading failed."""
        from solar.models.contributions import check_splits

        await self._tried.wait()
        if self._problem is not None or not isinstance(self.index, Index):
            return ModelInfo(name=self.name, attention=[], why=False, text=False)
        net = self.index.model
        try:
            check_splits(net)
            why = True
        except SolarError:
            why = False
        attention = sorted(net.config.attention)
        return ModelInfo(name=self.name, attention=attention, why=why, text=net.text is not None)


class SharedEncoders:
    """Encoders of queries, each network in memory once; for the network's thread only."""

    def __init__(self) -> None:
        self._loaded: dict[str, QueryEncoder] = {}

    def load(self, index: PhotoIndex) -> None:
        """Load the encoder of an index, or share one that is loaded."""
        if not isinstance(index, Index):
            index.load_model()
            return
        network = index.spec.fingerprint
        if network in self._loaded:
            index.model = self._loaded[network].net
        key = network + json.dumps(index.spec.settings, sort_keys=True, default=str)
        if network and key in self._loaded:
            index.encoder = self._loaded[key]
        loaded = index.encoder
        if network:  # without a fingerprint, networks cannot be compared
            self._loaded.setdefault(network, loaded)
            self._loaded.setdefault(key, loaded)
