"""Running a network without training it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def best_device() -> str:
    """Where to compute if nobody said so: the first CUDA device if there is one, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients inside the block; the former mode afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)
