"""Where the whitening of HOW's local descriptors starts, and stays: a PCA of training photos."""

from collections.abc import Iterable
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from solar.errors import SolarError
from solar.models import RetrievalNet
from solar.nn.local_pooling import How, smoothed
from solar.nn.whitening import whitening_of
from solar.training.distributed import share

MOST = 5000
"""Photos that it is computed from, as published."""

_STRONGEST = 1000  # locations of a photo
_TOGETHER = 16  # photos


@torch.no_grad()
def start_local_whitening(net: RetrievalNet, squares: Iterable[NDArray[np.uint8] | None]) -> None:
    """Whiten the strongest smoothed descriptors of squares (h, w, 3), None where there is none.

    Every process does the same, and takes what the first found.
    """
    assert isinstance(net.pool, How)
    channels = net.backbone.channels
    count, total = 0, torch.zeros(channels, dtype=torch.float64, device=net.device)
    second = torch.zeros(channels, channels, dtype=torch.float64, device=net.device)
    readable = iter(one for one in squares if one is not None)
    was_training = net.training
    net.eval()
    while some := list(islice(readable, _TOGETHER)):
        pixels = torch.from_numpy(np.stack(some)).to(net.device)
        rows = _strongest(net.pool, net.forward_features(net.normalise(pixels)).float()).double()
        count, total, second = count + len(rows), total + rows.sum(0), second + rows.T @ rows
    net.train(was_training)
    if count <= net.pool.dim:
        raise SolarError(
            f"{count} local descriptors are too few to whiten {net.pool.dim} directions: train on "
            "more or larger photos."
        )
    mean = total / count
    layer = whitening_of(mean, second / count - torch.outer(mean, mean)).linear()
    net.pool.start_from(*(share(part.to(net.device)) for part in (layer.weight, layer.bias)))


def _strongest(pool: How, maps: Tensor) -> Tensor:
    """The smoothed columns (n, c) of maps (b, c, h, w) at each photo's strongest locations."""
    strength, _ = pool.local(maps)
    best = strength.flatten(1).topk(min(_STRONGEST, strength[0].numel())).indices
    columns = smoothed(maps).flatten(2)
    return torch.cat([one[:, rows].T for one, rows in zip(columns, best, strict=True)])
