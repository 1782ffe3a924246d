"""Whole networks, their names and their files.

Everything named here is imported when it is first used: `zoo` alone needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solar.models.checkpoint import (
        Model,
        convert,
        fingerprint,
        load,
        load_whitening,
        retrieval_model,
        save,
        to_published,
    )
    from solar.models.patch_net import PATCH_REDUCTIONS, PatchConfig, PatchNet
    from solar.models.retrieval_net import (
        REDUCTIONS,
        SCALES,
        RetrievalConfig,
        RetrievalNet,
        attention_at,
    )

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

__all__ = [
    "PATCH_REDUCTIONS",
    "REDUCTIONS",
    "SCALES",
    "Model",
    "PatchConfig",
    "PatchNet",
    "RetrievalConfig",
    "RetrievalNet",
    "attention_at",
    "convert",
    "fingerprint",
    "load",
    "load_whitening",
    "retrieval_model",
    "save",
    "to_published",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'solar.models' has no attribute {name!r}")
