"""Results kept for the next who asks, within a budget of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """The latest used values, up to a budget of bytes; may be used from several threads.

    `size` tells the bytes of a value; one larger than the budget is not kept. `most` limits their
    number.
    """

    def __init__(self, budget: int, size: Callable[[V], int], most: int | None = None) -> None:
        self.budget, self.bytes = budget, 0
        self._size, self._most = size, most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """A value, which counts as used now; None where it is not kept."""
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
            while self.bytes > self.budget or (self._most and len(self._values) > self._most):
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
