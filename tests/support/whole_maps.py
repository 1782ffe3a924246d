"""Attention maps of a whole backbone, held in memory as the published code does."""

import torch
from torch import Tensor

from solar.nn import Backbone, SecondOrderAttention


def forward_with_map(
    block: SecondOrderAttention, x: Tensor, *, picture_scale: bool = False
) -> tuple[Tensor, Tensor]:
    """What a block gives for (b, c, h, w), and its (b, h·w, h·w) map: equations 2 and 3."""
    own, others = x.tensor_split([block.channels], dim=1)
    q, k, v = (head(own).flatten(2).mT for head in (block.query, block.key, block.value))
    scale = block.mid ** (-0.75 if picture_scale else -0.5)
    z = torch.softmax(scale * (q @ k.mT), dim=-1)
    gathered = block.output((z @ v).mT.unflatten(2, x.shape[2:]))
    return torch.cat([own + gathered, others], dim=1), z


def whole_maps(
    backbone: Backbone, x: Tensor, *, picture_scale: bool = True
) -> tuple[Tensor, dict[int, Tensor]]:
    """What the backbone gives, and by layer number the (b, n, n) maps over n locations."""
    maps: dict[int, Tensor] = {}

    def keep(layer: int, block: SecondOrderAttention, x: Tensor) -> Tensor:
        x, maps[layer] = forward_with_map(block, x, picture_scale=picture_scale)
        return x

    return backbone.run(x, keep), maps
