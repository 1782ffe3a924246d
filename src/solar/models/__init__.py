"""Whole networks, their names and their files.

Everything named here is imported when it is first used: `zoo` alone needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solar.models.checkpoint import Model as Model
    from solar.models.checkpoint import fingerprint as fingerprint
    from solar.models.checkpoint import load as load
    from solar.models.checkpoint import load_whitening as load_whitening
    from solar.models.checkpoint import retrieval_model as retrieval_model
    from solar.models.checkpoint import save as save
    from solar.models.export import convert as convert
    from solar.models.hub.folder import save_folder as save_folder
    from solar.models.patch_net import PATCH_REDUCTIONS as PATCH_REDUCTIONS
    from solar.models.patch_net import PatchConfig as PatchConfig
    from solar.models.patch_net import PatchNet as PatchNet
    from solar.models.retrieval_config import REDUCTIONS as REDUCTIONS
    from solar.models.retrieval_config import SCALES as SCALES
    from solar.models.retrieval_config import RetrievalConfig as RetrievalConfig
    from solar.models.retrieval_config import attention_at as attention_at
    from solar.models.retrieval_net import RetrievalNet as RetrievalNet
else:
    _HOMES = {
        "Model": "solar.models.checkpoint",
        "PATCH_REDUCTIONS": "solar.models.patch_net",
        "PatchConfig": "solar.models.patch_net",
        "PatchNet": "solar.models.patch_net",
        "REDUCTIONS": "solar.models.retrieval_config",
        "RetrievalConfig": "solar.models.retrieval_config",
        "RetrievalNet": "solar.models.retrieval_net",
        "SCALES": "solar.models.retrieval_config",
        "attention_at": "solar.models.retrieval_config",
        "convert": "solar.models.export",
        "fingerprint": "solar.models.checkpoint",
        "load": "solar.models.checkpoint",
        "load_whitening": "solar.models.checkpoint",
        "retrieval_model": "solar.models.checkpoint",
        "save": "solar.models.checkpoint",
        "save_folder": "solar.models.hub.folder",
    }
    __all__ = list(_HOMES)

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return __all__
