"""solar: find photos of the same place or object among millions.

Everything named here is imported on first use, so `import solar` itself is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from solar.describe import Store as Store
    from solar.describe import extract as extract
    from solar.errors import SolarError as SolarError
    from solar.evaluation import evaluate as evaluate
    from solar.models import PatchConfig as PatchConfig
    from solar.models import PatchNet as PatchNet
    from solar.models import RetrievalConfig as RetrievalConfig
    from solar.models import RetrievalNet as RetrievalNet
    from solar.models import convert as convert
    from solar.models import load as load
    from solar.models import save as save
    from solar.search import Index as Index
    from solar.search import Photo as Photo
    from solar.search.index import locate as locate
    from solar.search.index_build import build as build
    from solar.search.matching import match as match
    from solar.search.photo_duplicates import duplicates as duplicates
    from solar.search.photo_groups import groups as groups
    from solar.search.photo_pairs import pairs as pairs
    from solar.search.sync import sync as sync
    from solar.show.attention_maps import attention as attention
    from solar.show.explanation import explain as explain
    from solar.training import train as train
    from solar.training.adaptation import adapt as adapt
else:
    _HOMES = {
        "Index": "solar.search",
        "PatchConfig": "solar.models",
        "PatchNet": "solar.models",
        "RetrievalConfig": "solar.models",
        "RetrievalNet": "solar.models",
        "SolarError": "solar.errors",
        "Store": "solar.describe",
        "adapt": "solar.training.adaptation",
        "attention": "solar.show.attention_maps",
        "build": "solar.search.index_build",
        "convert": "solar.models",
        "duplicates": "solar.search.photo_duplicates",
        "evaluate": "solar.evaluation",
        "explain": "solar.show.explanation",
        "extract": "solar.describe",
        "groups": "solar.search.photo_groups",
        "load": "solar.models",
        "locate": "solar.search.index",
        "match": "solar.search.matching",
        "pairs": "solar.search.photo_pairs",
        "save": "solar.models",
        "sync": "solar.search.sync",
        "train": "solar.training",
    }
    __all__ = list(_HOMES)

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return __all__
