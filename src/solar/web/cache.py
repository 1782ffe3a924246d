"""Results kept for the next request, within a budget of bytes."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """The latest used values, of at most `budget` bytes by `size`; for several threads."""

    def __init__(self, budget: int, size: Callable[[V], int]) -> None:
        self.budget, self.bytes = budget, 0
        self._size = size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """A value, which counts as used now; None if it is not kept."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Keep a value, and drop those that were not used for longest."""
        size = self._size(value)
        with self._lock:
            self._drop(key)
            if size > self.budget:
                return
            self._values[key] = value
            self.bytes += size
            while self.bytes > self.budget:
                self._drop(next(iter(self._values)))

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._values.clear()
            self.bytes = 0

    def _drop(self, key: K) -> None:
        old = self._values.pop(key, None)
        if old is not None:
            self.bytes -= self._size(old)


class MadeOnce(Generic[V]):
    """Values that take long to compute: cached, and computed once for all who wait."""

    def __init__(self, budget: int, size: Callable[[V], int]) -> None:
        self._kept: Cache[Hashable, V] = Cache(budget, size)
        self._making: dict[Hashable, asyncio.Task[V]] = {}

    @property
    def nbytes(self) -> int:
        """Memory of what is kept."""
        return self._kept.bytes

    async def get(self, key: Hashable, make: Callable[[], Awaitable[V]]) -> V:
        """A value, which may be there already."""
        value = self._kept.get(key)
        if value is not None:
            return value
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.ensure_future(self._make(key, make))
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[V]]) -> V:
        try:
            value = await make()
        finally:
            del self._making[key]
        self._kept.put(key, value)
        return value
