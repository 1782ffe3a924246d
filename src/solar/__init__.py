"""solar: find photos of the same place or object among millions.

Everything named here is imported on first use, so `import solar` itself is fast.
"""

from typing import TYPE_CHECKING

from solar.lazy import on_first_use

__version__ = "1.0.0"

if TYPE_CHECKING:
    from solar.albums.groups import groups as groups
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
    from solar.reproduction.reproduce import reproduce as reproduce
    from solar.sfm.pairs import pairs as pairs
    from solar.show.attention_maps import attention as attention
    from solar.show.explanation import explain as explain
    from solar.storage.types import Photo as Photo
    from solar.training import train as train
    from solar.training.adaptation import adapt as adapt
else:
    __all__, __getattr__, __dir__ = on_first_use(
        __name__,
        {
            "solar.albums.groups": "groups",
            "solar.errors": "SolarError",
            "solar.evaluation": "evaluate",
            "solar.index": "Index",
            "solar.index.build": "build",
            "solar.index.index": "locate",
            "solar.index.sync": "sync",
            "solar.matching.match": "match",
            "solar.models": "PatchConfig PatchNet RetrievalConfig RetrievalNet convert load save",
            "solar.near_duplicates.find": "duplicates",
            "solar.reproduction.reproduce": "reproduce",
            "solar.sfm.pairs": "pairs",
            "solar.show.attention_maps": "attention",
            "solar.show.explanation": "explain",
            "solar.storage.types": "Photo",
            "solar.training": "train",
            "solar.training.adaptation": "adapt",
        },
    )
