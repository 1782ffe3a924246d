"""State of all random generators, so that a resumed run continues them."""

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch, on every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (a library may still draw from the old generator)
    torch.manual_seed(seed)


def capture_random() -> dict[str, Any]:
    """Take the state of every generator, as tensors and plain values that a checkpoint may hold."""
    kind, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    version, internal, gauss_next = random.getstate()
    words = torch.from_numpy(np.asarray(keys).astype(np.int64))
    return {
        "python": [version, torch.tensor(internal, dtype=torch.int64), gauss_next],
        "numpy": [str(kind), words, int(position), int(has_gauss), float(gauss)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random(state: dict[str, Any]) -> None:
    """Set every generator back to what `capture_random` saw.

    A run that goes on with another number of GPUs keeps what their generators hold now.
    """
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal.tolist()), gauss_next))
    kind, keys, position, has_gauss, gauss = state["numpy"]
    words = keys.numpy().astype(np.uint32)
    np.random.set_state((kind, words, position, has_gauss, gauss))  # noqa: NPY002
    torch.set_rng_state(state["torch"].cpu())
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([one.cpu() for one in state["cuda"]])
