"""Whitening computed from descriptors, in the form a linear layer can take over."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Whitening:
    """Subtract a mean (d,), multiply by a matrix (d, d) with the most important row first."""

    mean: Tensor
    matrix: Tensor

    def linear(self, dim: int | None = None) -> nn.Linear:
        """As a layer with bias, ready to be trained further: weight P, bias −P·m."""
        matrix = self.matrix[:dim]
        layer = nn.Linear(matrix.shape[1], matrix.shape[0])
        with torch.no_grad():
            layer.weight.copy_(matrix)
            layer.bias.copy_(-matrix @ self.mean)
        return layer


def pca_whitening(descriptors: Tensor, power: float = 1.0) -> Whitening:
    """Whiten rows (n, d) by principal components: afterwards the covariance is the identity.

    Computed in float64. Directions in which the descriptors never vary, as where n ≤ d, come out
    as 0. A `power` below 1 whitens in part: standard deviations are taken to 1 − `power`, and 0
    only rotates.
    """
    x = descriptors.double()
    mean = x.mean(dim=0)
    return whitening_of(mean, (x - mean).T @ (x - mean) / len(x), power)


def whitening_of(mean: Tensor, covariance: Tensor, power: float = 1.0) -> Whitening:
    """`pca_whitening` from the mean (d,) and covariance (d, d) of rows."""
    values, vectors = _eigen(covariance)
    # Divided by next to nothing, these directions would drown all others in new descriptors.
    varies = values > 1e-12 * values[0]
    scale = torch.where(varies, values.clamp(min=torch.finfo(values.dtype).tiny).pow(-power / 2), 0)
    return Whitening(mean, vectors.T * scale[:, None])


def learned_whitening(descriptors: Tensor, queries: Tensor, positives: Tensor) -> Whitening:
    """Whiten the differences within matching pairs, then rotate to the principal components.

    The m pairs are given by their rows in the descriptors (n, d): queries (m,), over which the mean
    is taken, and positives (m,). Computed in float64.
    """
    x = descriptors.double()
    mean = x[queries].mean(dim=0)
    difference = x[queries] - x[positives]
    whiten = torch.linalg.inv(_cholesky(difference.T @ difference / len(difference)))
    centred = (x - mean) @ whiten.T
    _, vectors = _eigen(centred.T @ centred)
    return Whitening(mean, vectors.T @ whiten)


def within_whitening(descriptors: Tensor, labels: Tensor, shrink: float = 10.0) -> Tensor:
    """A matrix (d, d) that evens out how much photos of one place differ.

    Computed in float64 for rows (n, d) of places (n,), numbered from 0. The variance in every
    direction is increased by `shrink` times its mean, which keeps the matrix close to the identity;
    its largest factor is 1.
    """
    x = descriptors.double()
    sums = x.new_zeros(int(labels.max()) + 1, x.shape[1]).index_add_(0, labels, x)
    apart = x - (sums / labels.bincount().clamp(min=1)[:, None])[labels]
    values, vectors = _eigen(apart.T @ apart / len(x))
    values = (values + shrink * values.mean()).clamp(min=1e-12)  # photos may all be the same
    matrix: Tensor = vectors * (values / values[-1]).rsqrt() @ vectors.T
    return matrix


def _eigen(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in falling order and their vectors, one per column."""
    values, vectors = torch.linalg.eigh((symmetric + symmetric.T) / 2)
    return values.flip(0), vectors.flip(1)


def _cholesky(symmetric: Tensor) -> Tensor:
    """Cholesky factor, with as little added to the diagonal as makes the matrix definite."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(symmetric)
    ridge = 1e-10
    while failed:
        if ridge > 1e6:
            raise ValueError("the descriptors of the pairs contain values that are not finite")
        identity = torch.eye(len(symmetric), dtype=symmetric.dtype, device=symmetric.device)
        factor, failed = torch.linalg.cholesky_ex(symmetric + ridge * identity)
        ridge *= 10
    return factor
