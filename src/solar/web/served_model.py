"""A model that visitors search with: an index, and whether its network is loaded yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from solar.errors import SolarError
from solar.search import Index, PhotoIndex, need_vectors
from solar.web.thread_pools import NetworkThread

if TYPE_CHECKING:
    from solar.describe.pipeline import QueryEncoder
    from solar.models import RetrievalNet


class ServedModel:
    """An index under the name that visitors know its model by; `load` loads the network."""

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

        `loading` loads the encoder of an index, where networks are shared.
        """
        try:
            await network.alone(lambda: (loading or PhotoIndex.load_model)(self.index))
        except SolarError as error:
            self._problem = error
        self._tried.set()

    async def loaded(self) -> PhotoIndex:
        """The index, waited for while its network is loaded; a SolarError if that cannot be."""
        await self._tried.wait()
        if self._problem is not None:
            raise self._problem
        return self.index

    async def encoder(self) -> QueryEncoder:
        """What describes queries; a SolarError if it is not there, or gives no vectors."""
        return need_vectors(await self.loaded()).encoder

    async def attention(self) -> list[int]:
        """The layers that have attention; none where the network could not be loaded."""
        net = await self._network()
        return [] if net is None else sorted(net.config.attention)

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
        net = await self._network()
        return net is not None and net.text is not None

    async def _network(self) -> RetrievalNet | None:
        """What makes vectors of photos; None if loading failed, or nothing does."""
        await self._tried.wait()
        return self.index.model if self._problem is None and isinstance(self.index, Index) else None
