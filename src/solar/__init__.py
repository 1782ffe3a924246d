"""solar: find photos of the same place or object among millions.

Everything named here is imported on first use, so `import solar` itself is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from solar.albums.groups import groups as groups
    from solar.describe import Store as Store
    from solar.describe import extract as extract
    from solar.errors import SolarError as SolarError
    from solar.evaluation import evaluate as evaluate
    from solar.index import Index as Index
    from solar.index.build import build as build
    from solar.index.index import locate as locate
    from solar.index.sync import sync as sync
    from solar.matching.match import match as match
    from solar.models import PatchConfig as PatchConfig
    from solar.models import PatchNet as PatchNet
    from solar.models import RetrievalConfig as RetrievalConfig
    from solar.models import RetrievalNet as RetrievalNet
    from solar.models import convert as convert
    from solar.models import load as load
    from solar.models import save as save
    from solar.near_duplicates.find import duplicates as duplicates
    from solar.sfm.pairs import pairs as pairs
    from solar.show.attention_maps import attention as attention
    from solar.show.explanation import explain as explain
    from solar.storage.types import Photo as Photo
    from solar.training import train as train
    from solar.training.adaptation import adapt as adapt
else:
    _HOMES = {
        "Index": "solar.index",
        "PatchConfig": "solar.models",
        "PatchNet": "solar.models",
        "Photo": "solar.storage.types",
        "RetrievalConfig": "solar.models",
        "RetrievalNet": "solar.models",
        "SolarError": "solar.errors",
        "Store": "solar.describe",
        "adapt": "solar.training.adaptation",
        "attention": "solar.show.attention_maps",
        "build": "solar.index.build",
        "convert": "solar.models",
        "duplicates": "solar.near_duplicates.find",
        "evaluate": "solar.evaluation",
        "explain": "solar.show.explanation",
        "extract": "solar.describe",
        "groups": "solar.albums.groups",
        "load": "solar.models",
        "locate": "solar.index.index",
        "match": "solar.matching.match",
        "pairs": "solar.sfm.pairs",
        "save": "solar.models",
        "sync": "solar.index.sync",
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
