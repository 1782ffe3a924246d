"""The norm that every global descriptor ends in."""

import torch
from torch import Tensor


def l2_normalize(x: Tensor, eps: float = 1e-6, dim: int = 1) -> Tensor:
    """Divide by the L2 norm along `dim` plus `eps`; half-precision input comes out in float32.

    The published networks *add* the epsilon to the norm, where `torch.nn.functional.normalize`
    takes the larger of the two: a unit vector comes out a millionth shorter than one.
    """
    x = x.float() if x.dtype.itemsize < 4 else x
    norm: Tensor = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    return x / (norm + eps)
