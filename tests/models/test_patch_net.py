from pathlib import Path

import numpy as np
import pytest
import torch
from support.drawn import drawn_state, relative_error

from solar.errors import SolarError
from solar.models import PATCH_REDUCTIONS, PatchConfig, PatchNet, attention_at, load, save
from solar.models.published import from_state, to_published


@pytest.mark.parametrize("layers", ["", "3", "4", "5", "6", "34", "35", "45", "46", "345", "456"])
def test_equals_the_published_patch_network(golden: dict[str, np.ndarray], layers: str) -> None:
    blank = PatchNet(PatchConfig(attention_at(layers, PATCH_REDUCTIONS)))
    net = from_state("drawn", drawn_state(blank, "local"), {}).eval()
    with torch.inference_mode():
        ours = net(torch.from_numpy(golden["patches"]))
    assert relative_error(ours, golden[f"local_soa{layers}"]) < 2e-4


def test_equals_the_published_sosnet(golden: dict[str, np.ndarray]) -> None:
    net = from_state("drawn", drawn_state(PatchNet(), "sosnet"), {}).eval()
    with torch.inference_mode():
        ours = net(torch.from_numpy(golden["patches"]))
    assert relative_error(ours, golden["sosnet32"]) < 2e-4


def test_describes_arrays_of_any_number_type_in_batches(golden: dict[str, np.ndarray]) -> None:
    net = PatchNet(PatchConfig({3: 4})).eval()
    patches = (golden["patches"][:, 0] - golden["patches"].min()).astype(np.uint8)
    whole = net.describe(patches)
    np.testing.assert_allclose(net.describe(patches, batch=4), whole, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)
    assert whole.dtype == np.float32


def test_brightness_and_contrast_do_not_matter(golden: dict[str, np.ndarray]) -> None:
    net, patches = PatchNet(), golden["patches"]
    np.testing.assert_allclose(net.describe(patches), net.describe(patches * 3 + 40), atol=2e-4)


def test_a_black_patch_gets_a_finite_unit_descriptor() -> None:
    vector = PatchNet().describe(np.zeros((1, 32, 32)))
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_patches_of_another_size_are_refused() -> None:
    with pytest.raises(SolarError, match=r"\(n, 32, 32\)"):
        PatchNet().describe(np.zeros((2, 65, 65)))


def test_attention_after_a_layer_that_has_no_place_for_it_is_refused() -> None:
    with pytest.raises(SolarError, match=r"3, 4, 5, 6 .*L2Net.* 7"):
        PatchNet(PatchConfig(attention={7: 2}))


SMALL = ((8, 1), (8, 2), (16, 1), (16, 2), (16, 1), (24, 1))


def test_a_network_with_other_layers_is_saved_with_them(tmp_path: Path) -> None:
    net = PatchNet(PatchConfig({5: 2}, layers=SMALL)).eval()
    assert net.forward_features(torch.rand(2, 1, 32, 32)).shape == (2, 24, 8, 8)
    assert net.trunk.attention_strides == {3: 2, 4: 4, 5: 4, 6: 4}
    save(net, tmp_path / "small.safetensors")
    again = load(tmp_path / "small.safetensors")
    assert again.config == net.config
    patches = np.random.default_rng(0).integers(0, 256, (3, 32, 32), np.uint8)
    np.testing.assert_array_equal(again.describe(patches), net.describe(patches))
    with pytest.raises(SolarError, match="layers"):
        to_published(net)


def test_published_layers_are_not_named_in_files() -> None:
    assert "layers" not in PatchConfig({3: 4}).to_dict()


@pytest.mark.parametrize(
    "layers",
    [
        SMALL[:5],
        (*SMALL[:5], (24, 2)),
        (*SMALL[:5], (0, 1)),
        (*SMALL[:5], (1 << 20, 1)),
        (*SMALL[:5], (24.0, 1)),
    ],
)
def test_layers_that_give_no_descriptor_are_refused(layers: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(SolarError, match="six layers"):
        PatchNet(PatchConfig(layers=layers))


def test_gradients_reach_every_parameter() -> None:
    net = PatchNet(PatchConfig({3: 4, 4: 4, 5: 2, 6: 2})).train()
    for number in (3, 4, 5, 6):
        torch.nn.init.normal_(net.trunk.get_submodule(f"soa{number}").output.weight, std=0.1)
    net(torch.rand(8, 1, 32, 32)).mul(torch.rand(8, 128)).sum().backward()
    silent = {n for n, p in net.named_parameters() if p.grad is None or not p.grad.abs().sum()}
    # A bias in front of a batch norm with batch statistics has no effect, so no gradient.
    assert all(name.endswith(("query.0.bias", "key.0.bias")) for name in silent)


def test_transforms_give_what_the_network_takes() -> None:
    net = PatchNet(PatchConfig({3: 4})).eval()
    patches = np.random.default_rng(0).integers(0, 256, (3, 32, 32), np.uint8)
    x = net.transforms(patches)
    assert (x.shape, x.dtype) == ((3, 1, 32, 32), torch.float32)
    assert torch.equal(net.transforms(torch.from_numpy(patches)), x)
    with torch.inference_mode():
        np.testing.assert_allclose(net(x).numpy(), net.encode(patches), atol=1e-6)
    with pytest.raises(SolarError, match=r"not \(3, 1, 31, 32\)"):
        net.transforms(patches[:, 1:])


def test_feature_maps_are_what_the_last_layer_takes() -> None:
    net = PatchNet(PatchConfig({3: 4})).eval()
    x = torch.rand(2, 1, 32, 32)
    with torch.inference_mode():
        features = net.forward_features(x)
        assert features.shape == (2, 128, 8, 8)
        last = net.trunk.layer7(features).flatten(1)
        torch.testing.assert_close(last / last.norm(dim=1, keepdim=True), net(x))


def test_its_repr_is_a_short_line() -> None:
    net = PatchNet(PatchConfig({5: 2, 3: 4}))
    assert repr(net) == "<PatchNet: l2net + attention 3,5, 128 numbers, on cpu>"
    net.source = "solar-local-none"
    assert repr(net).startswith("<PatchNet solar-local-none: l2net + ")
