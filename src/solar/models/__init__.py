"""Whole networks, their names and their files.

Everything named here is imported when it is first used: `zoo` alone needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solar.models.checkpoint import Model as Model
    from solar.models.checkpoint import convert as convert
    from solar.models.checkpoint import fingerprint as fingerprint
    from solar.models.checkpoint import load as load
    from solar.models.checkpoint import load_whitening as load_whitening
    from solar.models.checkpoint import retrieval_model as retrieval_model
    from solar.models.checkpoint import save as save
    from solar.models.checkpoint import to_published as to_published
    from solar.models.patch_net import PATCH_REDUCTIONS as PATCH_REDUCTIONS
    from solar.models.patch_net import PatchConfig as PatchConfig
    from solar.models.patch_net import PatchNet as PatchNet
    from solar.models.retrieval_net import REDUCTIONS as REDUCTIONS
    from solar.models.retrieval_net import SCALES as SCALES
    from solar.models.retrieval_net import RetrievalConfig as RetrievalConfig
    from solar.models.retrieval_net import RetrievalNet as RetrievalNet
    from solar.models.retrieval_net import attention_at as attention_at

_HOMES = {
    "Model": "solar.models.checkpoint",
    "PATCH_REDUCTIONS": "solar.models.patch_net",
    "PatchConfig": "solar.models.patch_net",
    "PatchNet": "solar.models.patch_net",
    "REDUCTIONS": "solar.models.retrieval_net",
    "RetrievalConfig": "solar.models.retrieval_net",
    "RetrievalNet": "solar.models.retrieval_net",
    "SCALES": "solar.models.retrieval_net",
    "attention_at": "solar.models.retrieval_net",
    "convert": "solar.models.checkpoint",
    "fingerprint": "solar.models.checkpoint",
    "load": "solar.models.checkpoint",
    "load_whitening": "solar.models.checkpoint",
    "retrieval_model": "solar.models.checkpoint",
    "save": "solar.models.checkpoint",
    "to_published": "solar.models.checkpoint",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'solar.models' has no attribute {name!r}")
