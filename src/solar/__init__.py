"""solar: find the same place or object again in millions of photos.

Everything named here is imported when it is first used, so `import solar` itself takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from solar.describe import Store, extract
    from solar.errors import SolarError
    from solar.evaluation import evaluate
    from solar.models import (
        PatchConfig,
        PatchNet,
        RetrievalConfig,
        RetrievalNet,
        convert,
        load,
        save,
    )
    from solar.search import Index
    from solar.search.matching import match
    from solar.show.attention_maps import attention
    from solar.training import train

_HOMES = {
    "Index": "solar.search",
    "SolarError": "solar.errors",
    "PatchConfig": "solar.models",
    "PatchNet": "solar.models",
    "RetrievalConfig": "solar.models",
    "RetrievalNet": "solar.models",
    "Store": "solar.describe",
    "attention": "solar.show.attention_maps",
    "convert": "solar.models",
    "extract": "solar.describe",
    "evaluate": "solar.evaluation",
    "load": "solar.models",
    "match": "solar.search.matching",
    "save": "solar.models",
    "train": "solar.training",
}

__all__ = [
    "Index",
    "PatchConfig",
    "PatchNet",
    "RetrievalConfig",
    "RetrievalNet",
    "SolarError",
    "Store",
    "__version__",
    "attention",
    "convert",
    "evaluate",
    "extract",
    "load",
    "match",
    "save",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'solar' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
