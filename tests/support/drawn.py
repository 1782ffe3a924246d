"""Weights drawn from their published names, as the golden numbers were made (tests/golden)."""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from solar.models import Model, RetrievalConfig, RetrievalNet
from solar.models.published_layouts import Layout, published_meta, published_name


def draw(key: str, shape: tuple[int, ...], tag: str = "golden") -> Tensor:
    r = np.random.default_rng(zlib.crc32(f"{tag}:{key}".encode()))
    if key.endswith("num_batches_tracked"):
        return torch.tensor(0)
    if key == "pool.p":
        values = np.full(shape, 2.8)
    elif key.endswith("running_var"):
        values = r.uniform(0.5, 1.5, shape)
    elif key.endswith(("running_mean", "bias")):
        values = 0.1 * r.standard_normal(shape)
    elif len(shape) == 1:
        values = r.uniform(0.4, 0.8, shape)
    else:
        values = r.standard_normal(shape) * np.sqrt(1.5 / np.prod(shape[1:]))
    return torch.from_numpy(np.asarray(values, np.float32))


def drawn_state(model: Model, layout: Layout) -> dict[str, Tensor]:
    """A state dict in a published layout for a network of ours."""
    own = model.state_dict()
    return {
        key: draw(key, tuple(own[name].shape))
        for name, key in ((name, published_name(name, layout)) for name in own)
    }


def drawn_checkpoint(model: RetrievalNet, layout: Layout = "solar") -> Mapping[str, Any]:
    """A whole published retrieval file: what `torch.load` gives for one."""
    meta = published_meta(model.config, model.dim)
    return {"meta": meta, "state_dict": drawn_state(model, layout)}


def relative_error(ours: object, theirs: np.ndarray) -> float:
    """Largest difference, relative to the largest golden value."""
    ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else np.asarray(ours)
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def drawn_retrieval(config: RetrievalConfig) -> RetrievalNet:
    """A retrieval network with drawn weights, ready to describe."""
    model = RetrievalNet(config)
    state = drawn_state(model, "solar")
    model.load_state_dict(
        {name: state[published_name(name, "solar")] for name in model.state_dict()}
    )
    return model.eval()
