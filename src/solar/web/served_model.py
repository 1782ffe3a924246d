"""Models that visitors search with: an index, and whether its network is loaded yet."""

from __future__ import annotations

import asyncio

from solar.describe.pipeline import QueryEncoder
from solar.errors import SolarError
from solar.index import PhotoIndex
from solar.web.api.schemas import ModelInfo
from solar.web.guard.thread_pools import NetworkThread


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
        self, network: NetworkThread, shared: dict[str, QueryEncoder] | None = None
    ) -> None:
        """Load the network in its thread; if that fails, queries that need it say why."""
        try:
            await network.alone(lambda: self.index.load_model(shared))
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
        return (await self.loaded()).encoder

    async def info(self) -> ModelInfo:
        """What the model can do; nothing if loading failed."""
        try:
            facts = (await self.encoder()).network.facts
        except SolarError:
            return ModelInfo(name=self.name, attention=[], why=False, text=False)
        attention = list(facts.attention)
        return ModelInfo(name=self.name, attention=attention, why=facts.explains, text=facts.text)
