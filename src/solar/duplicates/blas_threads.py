"""Matrix products on one core each, where several threads compute them at the same time.

Otherwise every product is shared between all cores, whose threads wait for each other by spinning:
deciding how photos are related took twice the processor's time.
"""

from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


def one_core_each() -> AbstractContextManager[Any]:
    """Inside the block NumPy computes a matrix product on one core, in all threads."""
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits
