"""Photos become a store of embeddings. Reading one takes no torch."""

from typing import TYPE_CHECKING

from solar.lazy import on_first_use

if TYPE_CHECKING:
    from solar.describe.extraction import extract as extract
    from solar.describe.pipeline import Throughput as Throughput
    from solar.describe.settings import Settings as Settings
    from solar.describe.store import Store as Store
else:
    __all__, __getattr__, __dir__ = on_first_use(
        __name__,
        {
            "solar.describe.extraction": "extract",
            "solar.describe.pipeline": "Throughput",
            "solar.describe.settings": "Settings",
            "solar.describe.store": "Store",
        },
    )
