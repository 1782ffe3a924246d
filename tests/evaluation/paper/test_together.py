import copy

import pytest
import torch

from solar.describe.fast_net import FusedNet
from solar.evaluation.paper.sweep import SharedBackbone
from solar.models import RetrievalNet


@pytest.fixture(scope="module")
def family(tiny: RetrievalNet) -> list[RetrievalNet]:
    """Three networks that share all but the pooling."""
    shared = {id(part): part for name, part in tiny.named_children() if name != "pool"}
    family = [copy.deepcopy(tiny, dict(shared)) for _ in range(3)]
    for net, p in zip(family, (1.0, 3.0, 6.0), strict=True):
        net.pool.p.data.fill_(p)
    return family


def test_an_embedding_that_is_not_finite_becomes_zeros(family: list[RetrievalNet]) -> None:
    broken = copy.deepcopy(family[1])
    broken.whiten.bias.data[0] = torch.nan
    pixels = torch.randint(0, 256, (2, 97, 131, 3), dtype=torch.uint8)
    good, bad = SharedBackbone([family[0], broken], scales=(1.0,))(pixels).chunk(2, dim=1)
    assert not bad.any()
    assert good.any(dim=1).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_side_by_side_eager_and_replayed(family: list[RetrievalNet]) -> None:
    nets = [copy.deepcopy(net).cuda() for net in family]
    pixels = torch.randint(0, 256, (2, 97, 131, 3), dtype=torch.uint8)
    alone = torch.cat([FusedNet(net, scales=(1.0, 0.7))(pixels) for net in nets], dim=1)
    together = SharedBackbone(nets, scales=(1.0, 0.7))
    for _ in range(5):  # twice plainly, then recorded and replayed
        torch.testing.assert_close(together(pixels), alone, rtol=0, atol=1e-5)
