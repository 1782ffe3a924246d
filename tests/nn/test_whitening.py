import numpy as np
import pytest
import torch

from solar.nn import Whitening, l2_normalize, pca_whitening, within_whitening
from solar.nn.whitening import learned_whitening


def whitened(whitening: Whitening, rows: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    return l2_normalize((rows - whitening.mean) @ whitening.matrix[:dim].T)


def test_learned_whitening_equals_the_published_one(golden: dict[str, np.ndarray]) -> None:
    rows = torch.from_numpy(golden["whiten_X"]).T
    queries, positives = (torch.from_numpy(golden[f"whiten_{k}"]) for k in "qp")
    ours = whitened(learned_whitening(rows, queries, positives), rows, dim=16).T.numpy()
    theirs = golden["whiten_applied16"]
    signs = np.sign((ours * theirs).sum(axis=1, keepdims=True))  # an eigenvector's sign is free
    np.testing.assert_allclose(ours * signs, theirs, atol=1e-5 * np.abs(theirs).max())


def test_pca_whitening_leaves_unit_covariance() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, 6, generator=generator, dtype=torch.float64) @ torch.diag(
        torch.arange(1.0, 7, dtype=torch.float64)
    )
    whitening = pca_whitening(x)
    y = (x - whitening.mean) @ whitening.matrix.T
    torch.testing.assert_close(y.T @ y / len(y), torch.eye(6, dtype=torch.float64))


def test_the_first_rows_carry_the_most_variance() -> None:
    x = torch.randn(300, 5, generator=torch.Generator().manual_seed(1)) * torch.tensor(
        [1.0, 9, 3, 5, 7]
    )
    strongest = pca_whitening(x).matrix.abs().argmax(dim=1)
    assert strongest.tolist() == [1, 4, 3, 2, 0]


def test_pca_whitening_of_few_leaves_others_out_of_what_it_has_not_seen() -> None:
    x = torch.randn(20, 32, generator=torch.Generator().manual_seed(0))
    other = torch.randn(5, 32, generator=torch.Generator().manual_seed(1)).double()
    described = whitened(pca_whitening(x), other)
    assert described[:, 19:].abs().max() == 0
    assert described[:, :19].norm(dim=1).min() > 0.99


def test_pca_whitening_survives_a_direction_that_never_varies() -> None:
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(2))
    x[:, 2] = 0.5
    assert torch.isfinite(whitened(pca_whitening(x), x.double())).all()


def test_the_linear_layer_does_what_the_whitening_does() -> None:
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    whitening = pca_whitening(x)
    layer = whitening.linear(5).double()
    expected = (x - whitening.mean) @ whitening.matrix[:5].T
    torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-5)
    assert layer.bias.requires_grad


def test_pairs_that_do_not_span_the_space_still_whiten() -> None:
    x = torch.randn(30, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    pairs = torch.arange(3)
    assert torch.isfinite(learned_whitening(x, pairs, pairs + 3).matrix).all()


def test_pairs_that_are_not_finite_are_refused() -> None:
    x = torch.full((6, 3), float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        learned_whitening(x, torch.arange(3), torch.arange(3) + 3)


def test_within_whitening_evens_out_what_differs_in_a_place() -> None:
    torch.manual_seed(0)
    labels = torch.arange(600) % 12
    spread = torch.linspace(0.2, 2, 8)
    x = (5 * torch.randn(12, 8))[labels] + torch.randn(600, 8) * spread
    white = x.double() @ within_whitening(x, labels, shrink=0).T
    means = torch.stack([white[labels == n].mean(dim=0) for n in range(12)])
    apart = white - means[labels]
    covariance = apart.T @ apart / len(x)
    least = spread[0] ** 2  # what varied least has stayed
    assert torch.allclose(covariance / least, torch.eye(8).double(), atol=0.15)
    assert torch.allclose(covariance, covariance[0, 0] * torch.eye(8).double(), atol=1e-8)
    near = within_whitening(x, labels, shrink=1e6)
    assert torch.allclose(near, torch.eye(8).double(), atol=1e-4)
