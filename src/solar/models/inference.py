"""Running a network without training it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from solar.errors import SolarError


def best_device() -> str:
    """The default device: the first CUDA device if there is one, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def checked_device(device: str | torch.device | None = None) -> torch.device:
    """The device "cpu", "cuda" or "cuda:1", for example; None: `best_device`.

    A SolarError if this machine does not have it.
    """
    name = best_device() if device is None else str(device)
    if name.partition(":")[0] == "cuda" and not torch.cuda.is_available():
        raise SolarError("This machine has no CUDA device: choose cpu.")
    try:
        found = torch.device(name)
    except RuntimeError:  # no name that torch knows
        found = None
    if found is None or not _is_here(found):
        raise SolarError(f"This machine has no device {name!r}: choose cpu or cuda.")
    return found


def _is_here(device: torch.device) -> bool:
    if device.type == "cuda":
        return (device.index or 0) < torch.cuda.device_count()
    return device.type == "cpu" or (device.type == "mps" and torch.backends.mps.is_available())


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one core inside the block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def named(model: nn.Module) -> str:
    """The class of a network and the file that it was loaded from: how reprs begin."""
    source = getattr(model, "source", None)
    return type(model).__name__ + (f" {Path(source).name}" if source else "")


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
