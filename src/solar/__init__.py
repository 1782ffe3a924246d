"""solar: find photos of the same place or object among millions.

Everything named here is imported on first use, so `import solar` itself is fast.
"""

from typing import TYPE_CHECKING

from solar.lazy import lazy_exports

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
    __getattr__, __dir__, __all__ = lazy_exports(__spec__)
