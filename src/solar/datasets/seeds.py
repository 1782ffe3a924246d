"""Reproducible randomness: a seed per step, epoch or photo."""

import numpy as np
import torch


def mixed(*numbers: int) -> int:
    """One seed out of several numbers, none like another's."""
    [value] = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return int(value) >> 1  # torch takes signed numbers


def generator(*key: int) -> torch.Generator:
    """Chance of its own for each key, such as a seed and a step.

    The key is mixed first: of a long number torch's generator would take the last 32 bits alone.
    """
    return torch.Generator().manual_seed(mixed(*(number & 0xFFFFFFFF for number in key)))
