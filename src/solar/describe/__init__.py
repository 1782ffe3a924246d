"""Photos become a store of embeddings. Reading one takes no torch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solar.describe.extraction import extract as extract
    from solar.describe.pipeline import Throughput as Throughput
    from solar.describe.settings import Settings as Settings
    from solar.describe.store import Store as Store
else:
    _HOMES = {
        "Settings": "solar.describe.settings",
        "Store": "solar.describe.store",
        "Throughput": "solar.describe.pipeline",
        "extract": "solar.describe.extraction",
    }
    __all__ = list(_HOMES)

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return __all__
