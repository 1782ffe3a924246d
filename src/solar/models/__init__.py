"""Whole networks, their names and their files."""

from solar.models.checkpoint import (
    Model,
    convert,
    fingerprint,
    load,
    load_whitening,
    save,
    to_published,
)
from solar.models.patch import PATCH_REDUCTIONS, PatchConfig, PatchNet
from solar.models.retrieval import REDUCTIONS, SCALES, RetrievalConfig, RetrievalNet, attention_at

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
    "save",
    "to_published",
]
