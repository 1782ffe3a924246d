"""Many photos become a store of descriptors."""

from typing import TYPE_CHECKING, Any

from solar.describe.store import Store

if TYPE_CHECKING:
    from solar.describe.extraction import extract
    from solar.describe.pipeline import Settings, Throughput

__all__ = ["Settings", "Store", "Throughput", "extract"]


def __getattr__(name: str) -> Any:
    # Reading a store takes numpy alone; torch comes with the rest.
    if name in __all__:
        from solar.describe import extraction

        return getattr(extraction, name)
    raise AttributeError(f"module 'solar.describe' has no attribute {name!r}")
