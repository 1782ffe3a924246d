import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from support.filled import content, filled, written

from solar.describe.fast_net import FusedNet
from solar.evaluation.paper.sweep import SharedBackbone, describe_together
from solar.images import find_photos
from solar.index import Index
from solar.models import RetrievalNet


@pytest.fixture(scope="module")
def family(tiny: RetrievalNet) -> list[RetrievalNet]:
    """Three networks that share all but the pooling."""
    shared = {id(part): part for name, part in tiny.named_children() if name != "pool"}
    family = [copy.deepcopy(tiny, dict(shared)) for _ in range(3)]
    for net, p in zip(family, (1.0, 3.0, 6.0), strict=True):
        net.pool.p.data.fill_(p)
    return family


def test_indexes_made_together_equal_those_made_alone(
    photos: Path, family: list[RetrievalNet], tmp_path: Path
) -> None:
    found = find_photos(photos)
    boxes = {found.names[3]: (4.0, 4.0, 40.0, 30.0)}
    places = [tmp_path / str(number) for number in range(3)]
    counted = []
    describe_together(found, places, family, boxes=boxes, progress=lambda *n: counted.append(n))
    assert counted[-1] == ("Describing", 27, 27)
    for number, net in enumerate(family):
        filled(found, tmp_path / f"alone{number}", model=net, boxes=boxes).close()
        assert content(places[number]) == content(tmp_path / f"alone{number}")
        assert written(places[number]).keys() == written(tmp_path / f"alone{number}").keys()


def test_only_what_is_missing_is_described(
    photos: Path, family: list[RetrievalNet], tmp_path: Path
) -> None:
    found = find_photos(photos)
    places = [tmp_path / str(number) for number in range(3)]
    filled(found, places[0], model=family[0]).close()
    before = written(places[0])
    describe_together(found, places, family)
    assert written(places[0]) == before
    counted: list[tuple[str, int, int]] = []
    describe_together(found, places, family, progress=lambda *n: counted.append(n))
    assert counted == []


def test_an_embedding_that_is_not_finite_becomes_zeros(
    photos: Path, family: list[RetrievalNet], tmp_path: Path
) -> None:
    broken = copy.deepcopy(family[1])
    broken.whiten.bias.data[0] = torch.nan
    places = [tmp_path / "good", tmp_path / "broken"]
    describe_together(find_photos(photos), places, [family[0], broken])
    good, bad = (np.asarray(Index.open(place).vectors) for place in places)
    assert not bad.any()
    assert good.any(axis=1).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_side_by_side_eager_and_replayed(family: list[RetrievalNet]) -> None:
    nets = [copy.deepcopy(net).cuda() for net in family]
    pixels = torch.randint(0, 256, (2, 97, 131, 3), dtype=torch.uint8)
    alone = torch.cat([FusedNet(net, scales=(1.0, 0.7))(pixels) for net in nets], dim=1)
    together = SharedBackbone(nets, scales=(1.0, 0.7))
    for _ in range(5):  # twice plainly, then recorded and replayed
        torch.testing.assert_close(together(pixels), alone, rtol=0, atol=1e-5)
