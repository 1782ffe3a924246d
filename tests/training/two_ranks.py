"""What one of several processes does for test_distributed.py: python two_ranks.py FOLDER."""

import sys
from pathlib import Path

import torch
from support.unit_rows import unit_rows
from torch import Tensor, nn

from solar.losses import second_order, triplet
from solar.training import distributed

TUPLES, IMAGES, SIDE = 6, 4, 10


class Network(nn.Module):
    """A few layers from tuples of numbers to tuples of unit descriptors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(SIDE, 16), nn.Tanh(), nn.Linear(16, 8)).double()

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(self.layers(x), dim=-1)


def batch() -> Tensor:
    return unit_rows(1, TUPLES, IMAGES, SIDE)


def total_loss(descriptors: Tensor) -> Tensor:
    parts = descriptors[:, 0], descriptors[:, 1], descriptors[:, 2:]
    return triplet(*parts, margin=0.5) + 10 * second_order(*parts)


def gradients(network: nn.Module) -> list[Tensor]:
    return [p.grad for p in network.parameters() if p.grad is not None]


def main(folder: Path) -> None:
    here = distributed.start("cpu")
    network = Network()
    together = nn.parallel.DistributedDataParallel(network)
    own = distributed.part(TUPLES)
    loss = total_loss(distributed.gather(together(batch()[own])))
    loss.backward()
    result = {
        "place": [here.rank, here.size, here.local_rank, int(here.leads)],
        "loss": loss.detach(),
        "gradients": gradients(network),
        "gathered": distributed.gather(torch.full((2, 1), float(here.rank))),
        "shared": distributed.share(torch.tensor([[here.rank + 1, 7]])),
        "part": [distributed.part(5).start, distributed.part(5).stop],
        "collected": distributed.collect(torch.arange(5)[distributed.part(5)]),
    }
    torch.save(result, folder / f"{here.rank}.pt")
    torch.distributed.barrier()
    # Whoever is through the barrier finds the other's file.
    assert len(list(folder.glob("*.pt"))) == here.size
    distributed.stop()
    assert distributed.world() == distributed.World()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
