"""Networks small enough to evaluate toy photos with."""

from typing import Any

import torch

from solar.models import RetrievalConfig, RetrievalNet


def network(seed: int = 0, **changes: Any) -> RetrievalNet:
    """A ResNet-18 with random weights, two scales and 16 numbers, unless told otherwise."""
    torch.manual_seed(seed)
    settings = {"dim": 16, "size": 64, "scales": (1.0, 0.7), **changes}
    return RetrievalNet(RetrievalConfig("resnet18", **settings)).eval()
