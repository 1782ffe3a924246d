"""Many photos become a store of descriptors. Reading one takes no torch."""

from typing import TYPE_CHECKING

from solar.lazy import lazy_exports

if TYPE_CHECKING:
    from solar.describe.extraction import extract as extract
    from solar.describe.pipeline import Throughput as Throughput
    from solar.describe.settings import Settings as Settings
    from solar.describe.store import Store as Store
else:
    __getattr__, __dir__, __all__ = lazy_exports(__spec__)
