"""Small teachers in every kind of file that a teacher may come in."""

from pathlib import Path

import torch
from torch import Tensor, nn


class Filters(nn.Module):
    """Drawn filters with a stride of 32: normalised images to a feature map of 24 channels."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(7)
            self.layers = nn.Sequential(
                nn.Conv2d(3, 32, 8, 8), nn.ReLU(), nn.Conv2d(32, 24, 4, 4), nn.ReLU()
            )

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.layers(images)
        return out


def torchscript(path: Path, network: nn.Module | None = None) -> Path:
    torch.jit.trace((network or Filters()).eval(), torch.rand(2, 3, 64, 96)).save(str(path))
    return path


def exported(path: Path, *, fixed: bool = False) -> Path:
    axes = dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)
    program = torch.export.export(
        Filters().eval(), (torch.rand(2, 3, 64, 96),), dynamic_shapes=None if fixed else (axes,)
    )
    torch.export.save(program, path)
    return path
