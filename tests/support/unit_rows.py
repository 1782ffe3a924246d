"""Descriptors drawn from a seed."""

import torch
from torch import Tensor


def unit_rows(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Unit vectors along the last axis."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(x, dim=-1).to(dtype)
