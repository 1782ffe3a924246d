import numpy as np
import pytest
import torch
from support.patch_sets import smooth

from solar.errors import SolarError
from solar.evaluation.protocols.patch_describers import describe_sift, patch_describer, shrunk
from solar.models import PatchNet, RetrievalConfig, RetrievalNet


@pytest.fixture
def patches() -> np.ndarray:
    return smooth(np.random.default_rng(0), 4, 65).astype(np.uint8)


def test_halving_is_the_mean_of_four_pixels(patches: np.ndarray) -> None:
    even = patches[:, :64, :64]
    expected = even.reshape(-1, 32, 2, 32, 2).mean((2, 4))
    np.testing.assert_allclose(shrunk(even, 32), expected, rtol=1e-5)


def test_shrinking_keeps_the_mean(patches: np.ndarray) -> None:
    np.testing.assert_allclose(shrunk(patches, 32).mean((1, 2)), patches.mean((1, 2)), rtol=1e-5)


def test_shrinking_bilinearly_weighs_the_four_nearest_pixels(patches: np.ndarray) -> None:
    places = (np.arange(32) + 0.5) * 65 / 32 - 0.5
    low = np.floor(places).astype(int)
    weights = np.zeros((32, 65))
    weights[np.arange(32), low] = 1 - (places - low)
    weights[np.arange(32), low + 1] = places - low
    found = shrunk(patches, 32, "bilinear")
    exact = weights @ patches @ weights.T
    assert (found == found.round()).all()
    assert np.abs(found - exact).mean() < 0.3  # rounding
    assert np.abs(shrunk(patches, 32) - exact).mean() > 0.4


def test_small_patches_are_not_blown_up(patches: np.ndarray) -> None:
    with pytest.raises(SolarError, match="too small"):
        shrunk(patches[:, :20, :20], 32)


def test_a_network_describes_shrunk_patches(patches: np.ndarray) -> None:
    torch.manual_seed(0)
    network = PatchNet().eval()
    rows = patch_describer(network)(patches)
    expected = network(torch.from_numpy(shrunk(patches, 32))[:, None]).detach().numpy()
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    bilinear = torch.from_numpy(shrunk(patches, 32, "bilinear"))[:, None]
    rows = patch_describer(network, shrink="bilinear")(patches)
    np.testing.assert_allclose(rows, network(bilinear).detach().numpy(), atol=1e-5)
    assert np.abs(rows - expected).max() > 1e-4


def test_a_network_for_photos_is_refused() -> None:
    with pytest.raises(SolarError, match="describes photos"):
        patch_describer(RetrievalNet(RetrievalConfig("resnet18")))  # type: ignore[arg-type]


def test_rootsift_is_the_root_of_sift(patches: np.ndarray) -> None:
    plain, root = describe_sift(patches), patch_describer("rootsift")(patches)
    assert plain.shape == (4, 128)
    np.testing.assert_allclose(root**2 * plain.sum(1, keepdims=True), plain, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(root, axis=1), 1, rtol=1e-5)


def test_a_flat_patch_has_a_finite_description() -> None:
    assert np.isfinite(describe_sift(np.full((1, 65, 65), 9, np.uint8), root=True)).all()
