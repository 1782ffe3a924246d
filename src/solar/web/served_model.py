"""A model that visitors search with: an index, and whether its network is loaded yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from solar.errors import SolarError
from solar.search import Index
from solar.web.thread_pools import NetworkThread

if TYPE_CHECKING:
    from solar.describe.query_encoder import QueryEncoder


class ServedModel:
    """An index under the name that visitors know its model by; `load` loads the network."""

    def __init__(self, name: str, index: Index) -> None:
        self.name, self.index = name, index
        self._tried = asyncio.Event()
        self._problem: SolarError | None = None

    @property
    def ready(self) -> bool:
        """Whether loading has ended, well or not."""
        return self._tried.is_set()

    async def load(
        self, network: NetworkThread, loading: Callable[[Index], object] | None = None
    ) -> None:
        """Load the network in its thread; if that fails, queries that need it say why.

        `loading` loads the encoder of an index, where networks are shared.
        """
        try:
            await network.alone(lambda: loading(self.index) if loading else self.index.encoder)
        except SolarError as error:
            self._problem = error
        self._tried.set()

    async def encoder(self) -> QueryEncoder:
        """What describes queries, waited for while it is loaded; a SolarError if it cannot be."""
        await self._tried.wait()
        if self._problem is not None:
            raise self._problem
        return self.index.encoder

    async def attention(self) -> list[int]:
        """The layers that have attention; none where the network could not be loaded."""
        await self._tried.wait()
        return [] if self._problem else sorted(self.index.model.config.attention)

    async def explains(self) -> bool:
        """Whether it can be told why two photos are similar; not if loading failed."""
        from solar.models.located import check_splits

        try:
            check_splits((await self.encoder()).net)
        except SolarError:
            return False
        return True

    async def reads(self) -> bool:
        """Whether it can be searched with words; not if loading failed."""
        await self._tried.wait()
        return self._problem is None and self.index.model.text is not None
