import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from support.drawn import drawn_state

from solar.errors import SolarError
from solar.local.patch_network import FusedPatchNet, descriptors_of, patch_descriptors
from solar.models import PATCH_REDUCTIONS, PatchConfig, PatchNet, attention_at
from solar.models.published import from_state


def drawn_network(layers: str) -> PatchNet:
    blank = PatchNet(PatchConfig(attention_at(layers, PATCH_REDUCTIONS)))
    net = from_state("drawn", drawn_state(blank, "local"), {}).eval()
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


def test_cores_share_batches_and_torch_keeps_its_threads(golden: dict[str, np.ndarray]) -> None:
    net, before = drawn_network("4"), torch.get_num_threads()
    many = torch.from_numpy(golden["patches"]).repeat(200 // len(golden["patches"]) + 1, 1, 1, 1)
    seen: dict[int, int] = {}

    def cut(batch: slice) -> torch.Tensor:
        seen[threading.get_ident()] = torch.get_num_threads()
        return many[batch]

    try:
        torch.set_num_threads(1)
        alone = descriptors_of(net, len(many), cut)
        assert seen.pop(threading.get_ident()) == 1
        torch.set_num_threads(3)
        shared = descriptors_of(net, len(many), cut)
        assert set(seen.values()) == {1}
        assert threading.get_ident() not in seen
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as later:
            assert later.submit(torch.get_num_threads).result() == 3
        with pytest.raises(SolarError, match="must be"):
            descriptors_of(net, 100, lambda batch: many[batch, :, :31])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(shared, alone, atol=1e-6)


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
