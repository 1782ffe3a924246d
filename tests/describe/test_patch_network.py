from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from support.drawn import drawn_state

from solar.describe.patch_network import FusedPatchNet, patch_descriptors
from solar.models import PATCH_REDUCTIONS, PatchConfig, PatchNet, attention_at
from solar.models.checkpoint import _from_state


def drawn_network(layers: str) -> PatchNet:
    blank = PatchNet(PatchConfig(attention_at(layers, PATCH_REDUCTIONS)))
    net = _from_state("drawn", drawn_state(blank, "local"), {}).eval()
    assert isinstance(net, PatchNet)
    return net


@pytest.mark.parametrize("layers", ["345", "6", ""])
def test_the_fast_network_computes_the_same(golden: dict[str, np.ndarray], layers: str) -> None:
    net = drawn_network(layers)
    patches = torch.from_numpy(golden["patches"])
    with torch.inference_mode():
        cosines = (FusedPatchNet(net)(patches) * net(patches)).sum(1)
    assert cosines.min() > 0.99999


def test_patches_are_described_by_batches(golden: dict[str, np.ndarray]) -> None:
    net = drawn_network("4")
    many = np.tile(golden["patches"], (200 // len(golden["patches"]) + 1, 1, 1, 1))
    rows = patch_descriptors(net, torch.from_numpy(many))
    np.testing.assert_allclose(rows, net.describe(many), atol=1e-4)


def test_the_network_is_left_as_it_was(golden: dict[str, np.ndarray]) -> None:
    net = drawn_network("345").train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    patch_descriptors(net, torch.from_numpy(golden["patches"]))
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_threads_may_share_a_network_in_training(golden: dict[str, np.ndarray]) -> None:
    net = drawn_network("345").train()
    patches = torch.from_numpy(golden["patches"])
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: patch_descriptors(net, patches), range(16)))
    alone = patch_descriptors(net, patches)
    assert all(np.allclose(rows, alone, atol=1e-5) for rows in found)
