"""Photos become embeddings."""

from typing import TYPE_CHECKING

from solar.lazy import on_first_use

if TYPE_CHECKING:
    from solar.describe.pipeline import Throughput as Throughput
    from solar.describe.settings import Settings as Settings
else:
    __all__, __getattr__, __dir__ = on_first_use(
        __name__,
        {"solar.describe.pipeline": "Throughput", "solar.describe.settings": "Settings"},
    )
